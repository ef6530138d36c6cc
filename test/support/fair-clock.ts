const STEP_MS = 10

/**
 * Whether `event` comes within `ms` of the time that this process is given. A pause of the machine counts as one step, so a
 * test that waits like this tells what is late from what was not let run.
 */
export async function within(ms: number, event: Promise<unknown>): Promise<boolean> {
  let has_come = false
  void event.then(() => {
    has_come = true
  })
  for (let waited_ms = 0; waited_ms < ms && !has_come; waited_ms += STEP_MS) await Bun.sleep(STEP_MS)
  return has_come
}

/**
 * What `work` comes to, which takes from `least_ms` on the clock to `most_ms` of the time that this process is given; else it
 * fails.
 */
export async function takes<T>(least_ms: number, most_ms: number, work: Promise<T>): Promise<T> {
  const began_ms = performance.now()
  let ended_ms = Number.POSITIVE_INFINITY
  const over = work.then(noop, noop).then(() => {
    ended_ms = performance.now()
  })
  if (!(await within(most_ms, over))) throw new Error(`took longer than ${most_ms} ms`)
  if (ended_ms - began_ms < least_ms) throw new Error(`took ${ended_ms - began_ms} ms, not ${least_ms}`)
  return work
}

function noop(): void {}

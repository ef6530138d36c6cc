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

import { expect, test } from "bun:test"
import { startTimeout } from "../../src/call/timeouts.ts"

/** Starts timeouts of one length, each since so long ago. Resolves with the places of those that expired, in their order. */
function started(length_ms: number, ages_ms: readonly number[], cleared: readonly number[]) {
  const expired: number[] = []
  const early: number[] = []
  const now_ms = performance.now()
  const done = Promise.withResolvers<{ expired: number[]; early: number[] }>()
  const last = ages_ms.length - cleared.length
  const timeouts = ages_ms.map((age_ms, place) =>
    startTimeout(
      length_ms,
      () => {
        if (performance.now() < now_ms - age_ms + length_ms) early.push(place)
        if (expired.push(place) === last) done.resolve({ expired, early })
      },
      now_ms - age_ms,
    ),
  )
  for (const place of cleared) timeouts[place]?.clear()
  return done.promise
}

const cases: readonly [name: string, ages_ms: number[], cleared: number[], expired: number[]][] = [
  ["in the order in which they started", [0, 0, 0], [], [0, 1, 2]],
  ["those that began earlier first", [0, 10, 5, 20, 10], [], [3, 1, 4, 2, 0]],
  ["without the first", [20, 10, 0], [0], [1, 2]],
  ["without the last", [20, 10, 0], [2], [0, 1]],
  ["without those in the middle", [20, 15, 10, 0], [1, 2], [0, 3]],
  ["without one that would be first", [0, 20], [1], [0]],
  ["one that is overdue at once", [0, 1_000], [], [1, 0]],
]

for (const [name, ages_ms, cleared, expired] of cases) {
  test(`timeouts of one length expire ${name}, and none early`, async () => {
    expect(await started(30, ages_ms, cleared)).toEqual({ expired, early: [] })
  })
}

test("timeouts of different lengths do not wait for each other", async () => {
  const expired: string[] = []
  const long = startTimeout(60_000, () => expired.push("long"))
  await new Promise<void>((resolve) => startTimeout(5, resolve))
  long.clear()
  expect(expired).toEqual([])
})

test("a timeout may clear another and start the next one while it expires", async () => {
  const expired: string[] = []
  await new Promise<void>((resolve) => {
    const since_ms = performance.now()
    startTimeout(
      11,
      () => {
        expired.push("first")
        second.clear()
        startTimeout(11, resolve)
      },
      since_ms,
    )
    const second = startTimeout(11, () => expired.push("second"), since_ms)
  })
  expect(expired).toEqual(["first"])
})

test("clearing a timeout twice, or after it has expired, does nothing to the others", async () => {
  const expired: string[] = []
  const first = startTimeout(12, () => expired.push("first"))
  const second = startTimeout(12, () => expired.push("second"))
  await new Promise<void>((resolve) => {
    startTimeout(12, resolve)
    second.clear()
    second.clear()
  })
  first.clear()
  expect(expired).toEqual(["first"])
})

test("timeouts that are cleared keep no process alive", async () => {
  const script = `import { startTimeout } from "${import.meta.resolve("../../src/call/timeouts.ts")}"
for (const length_ms of [60_000, 60_000, 120_000]) startTimeout(length_ms, () => {}).clear()`
  const process = Bun.spawn([Bun.which("bun") ?? "bun", "-e", script], { timeout: 20_000 })
  expect(await process.exited).toBe(0)
})

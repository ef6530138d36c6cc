import { expect, spyOn, test } from "bun:test"
import { type AnswerMemory, Memory } from "../../src/admission/memory.ts"

const MIB = 1_048_576
const LIMITS = { body_bytes: 4 * MIB, memory_bytes: 64 * MIB }
/** More than an account can take without waiting. */
const SIZE = 8 * MIB

/** Holds memory for an answer. `has`: true if it got the memory, false if not, null while it waits. */
function asked(answer: AnswerMemory, bytes: number): { readonly has: () => boolean | null } {
  let has: boolean | null = null
  const room = answer.hold(bytes)
  if (room === null) has = true
  else void room.then((is_there) => (has = is_there))
  return { has: () => has }
}

/** The unread answers of one account, as many as get memory without waiting. */
async function filled(memory: Memory): Promise<AnswerMemory[]> {
  const answers: AnswerMemory[] = []
  for (;;) {
    const answer = memory.answer("greedy", LIMITS)
    const { has } = asked(answer, SIZE)
    answer.stop()
    await undefined
    if (has() !== true) return answers
    answers.push(answer)
  }
}

test("D77 answers wait once unread ones take 1.5 times the memory", async () => {
  const memory = new Memory(0)
  const unread = await filled(memory)
  expect(unread.length).toBe(1 + (LIMITS.memory_bytes * 1.5) / SIZE)
  const [first, second] = [memory.answer("greedy", LIMITS), memory.answer("greedy", LIMITS)]
  const waiting = [asked(first, SIZE), asked(second, SIZE)]
  const [taken] = unread
  taken?.hold(0)
  await undefined
  // Beyond the memory, one answer at a time is read: the second waits for the first.
  expect(waiting.map(({ has }) => has())).toEqual([true, null])
  first.stop()
  await undefined
  expect(waiting[1]?.has()).toBeNull()
  for (const answer of unread) answer.free()
  await undefined
  expect(waiting[1]?.has()).toBe(true)
})

test("D78 an account with little does not wait for the answers of another", async () => {
  const memory = new Memory(0)
  await filled(memory)
  const modest = memory.answer("modest", LIMITS)
  expect(modest.hold(LIMITS.memory_bytes / 16)).toBeNull()
  expect(modest.hold(LIMITS.memory_bytes / 16 + 1)).toBeInstanceOf(Promise)
  modest.free()
})

test("D78 accounts whose answers wait take turns", async () => {
  const memory = new Memory(0)
  const unread = await filled(memory)
  const order: string[] = []
  const calls = ["greedy", "greedy", "greedy", "modest"].map(async (account_id) => {
    const answer = memory.answer(account_id, LIMITS)
    await answer.hold(SIZE)
    order.push(account_id)
    answer.free()
  })
  unread.pop()?.free()
  await Promise.all(calls)
  expect(order).toEqual(["greedy", "modest", "greedy", "greedy"])
})

test("D77 an answer that is no longer kept does not keep the next one waiting", async () => {
  const memory = new Memory(0)
  const unread = await filled(memory)
  unread.pop()?.free()
  const [large, next] = [memory.answer("greedy", LIMITS), memory.answer("greedy", LIMITS)]
  expect(large.hold(SIZE)).toBeNull()
  const waiting = asked(next, SIZE)
  large.hold(0)
  await undefined
  expect(waiting.has()).toBe(true)
})

test("D77 answers that arrived in part are read one at a time, and all complete", async () => {
  const memory = new Memory(0)
  let whole = 0
  let reading = 0
  await Promise.all(
    Array.from({ length: 40 }, async () => {
      const answer = memory.answer("one", LIMITS)
      for (let bytes = MIB / 2; bytes <= 3 * MIB; bytes += MIB / 2) {
        expect((await answer.hold(bytes)) ?? true).toBe(true)
        if (bytes === MIB) reading += 1
      }
      // None is whole before all have arrived in part.
      expect(reading).toBe(40)
      whole += 1
      answer.free()
    }),
  )
  expect(whole).toBe(40)
})

test("D77 an answer that waits too long, or whose call ends, gets no memory and no longer waits", async () => {
  const memory = new Memory(0)
  const timers: (() => void)[] = []
  const unread = await filled(memory)
  const timer = spyOn(globalThis, "setTimeout").mockImplementation(((next: () => void) => {
    timers.push(next)
    return { unref() {} }
  }) as typeof setTimeout)
  const [lost, ended] = [memory.answer("greedy", LIMITS), memory.answer("greedy", LIMITS)]
  const given_up = asked(lost, SIZE)
  timers.pop()?.()
  const left = asked(ended, SIZE)
  ended.stop()
  timer.mockRestore()
  for (const answer of unread) answer.free()
  await undefined
  expect([given_up.has(), left.has()]).toEqual([false, false])
  expect(memory.answer("other", LIMITS).hold(60 * MIB)).toBeNull()
})

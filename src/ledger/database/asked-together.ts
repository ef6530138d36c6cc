import { LedgerBusy } from "../entries.ts"

/** The most questions of one statement, and the most that wait. */
const TOGETHER = 256
const MOST_WAITING = 4_096

interface NamedQuestion<Answer> {
  readonly name: string
  resolve(answer: Answer | null): void
  reject(error: unknown): void
}

/**
 * A question by name, null for a name without an answer. Those that come while a statement runs are asked together in the next, so that
 * those of anybody, such as about made-up tokens, do not fill the connections of operators. Throws `LedgerBusy` if too many wait.
 */
export function askedTogether<Answer>(
  ask: (names: readonly string[]) => Promise<ReadonlyMap<string, Answer>>,
): (name: string) => Promise<Answer | null> {
  let waiting: NamedQuestion<Answer>[] = []
  let is_asking = false

  async function askAll(): Promise<void> {
    is_asking = true
    // So that questions of the same turn of the event loop are asked together.
    await undefined
    while (waiting.length > 0) {
      const asked = waiting.slice(0, TOGETHER)
      waiting = waiting.slice(TOGETHER)
      try {
        const answers = await ask(asked.map(({ name }) => name))
        for (const { name, resolve } of asked) resolve(answers.get(name) ?? null)
      } catch (error) {
        for (const { reject } of asked) reject(error)
      }
    }
    is_asking = false
  }

  return (name) =>
    new Promise((resolve, reject) => {
      if (waiting.length >= MOST_WAITING) throw new LedgerBusy()
      waiting.push({ name, resolve, reject })
      if (!is_asking) void askAll()
    })
}

import { LedgerBusy } from "../entries.ts"

/** The most lookups of one statement. */
const MAX_BATCH = 256
/** The most lookups that wait. */
const MAX_WAITING = 4_096

interface QueuedLookup<Found> {
  readonly name: string
  resolve(found: Found | null): void
  reject(error: unknown): void
}

/**
 * A lookup by name that runs in batches: names that arrive while a statement runs wait for the next one. So a flood of made-up tokens
 * does not take the connections of operators. Resolves with null for an unknown name. Rejects with `LedgerBusy` if too many wait.
 */
export function batchedLookup<Found>(
  find: (names: readonly string[]) => Promise<ReadonlyMap<string, Found>>,
): (name: string) => Promise<Found | null> {
  let waiting: QueuedLookup<Found>[] = []
  let is_running = false

  async function run(): Promise<void> {
    is_running = true
    // Lookups of the same turn of the event loop share the first statement.
    await undefined
    while (waiting.length > 0) {
      const batch = waiting.slice(0, MAX_BATCH)
      waiting = waiting.slice(MAX_BATCH)
      try {
        const found = await find(batch.map(({ name }) => name))
        for (const { name, resolve } of batch) resolve(found.get(name) ?? null)
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    is_running = false
  }

  return (name) =>
    new Promise((resolve, reject) => {
      if (waiting.length >= MAX_WAITING) throw new LedgerBusy()
      waiting.push({ name, resolve, reject })
      if (!is_running) void run()
    })
}

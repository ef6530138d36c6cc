import { sql } from "drizzle-orm"
import type { Closings, Written } from "./closings.ts"
import type { Connection } from "./connection.ts"
import type { Log } from "./log.ts"
import { gateways } from "./schema.ts"
import type { Spool, SpoolFile } from "./spool.ts"
import { statement } from "./statement.ts"

const STATEMENT_MS = 5_000

const isDead = statement(
  "sweep",
  sql`SELECT g.id FROM ${gateways} g WHERE g.id = $1::uuid AND g.dead_at IS NOT NULL`,
)

/**
 * Writes into the books what other processes of this data directory could not (D27), and removes their files once they
 * are dead.
 */
export class Replay {
  readonly #spool: Spool
  readonly #closings: Closings
  readonly #connection: Connection
  readonly #log: Log
  /** What each file held when it was replayed, and whether all of it is in the books. */
  readonly #replayed = new Map<string, { readonly digest: string; readonly whole: boolean }>()

  constructor(spool: Spool, closings: Closings, connection: Connection, log: Log) {
    this.#spool = spool
    this.#closings = closings
    this.#connection = connection
    this.#log = log
  }

  async run(): Promise<void> {
    for (const file of await this.#spool.others()) {
      if (!(await this.#replay(file))) continue
      const dead = await this.#connection.run(isDead, [file.gateway_id], STATEMENT_MS)
      if (dead.length > 0) await this.#spool.remove(file)
    }
  }

  /** Whether all of the file is in the books. */
  async #replay({ path, digest, unreadable, closings }: SpoolFile): Promise<boolean> {
    const before = this.#replayed.get(path)
    if (before?.digest === digest) return before.whole
    if (unreadable > 0)
      this.#log.error({ path, lines: unreadable }, "the spool has lines that cannot be read")
    const results = await Promise.all(closings.map((spooled) => this.#closings.replay(spooled)))
    const count = (end: Written) => results.filter((result) => result === end).length
    const applied = count("applied")
    if (applied > 0) this.#log.info({ path, closings: applied }, "closings of another process were written")
    const foreign = count("none")
    if (foreign > 0)
      this.#log.error({ path, closings: foreign }, "the spool has closings of other books; it stays")
    if (count("unwritten") > 0) return false
    const whole = foreign === 0 && count("refused") === 0
    this.#replayed.set(path, { digest, whole })
    return whole
  }
}

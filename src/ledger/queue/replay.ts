import { sql } from "drizzle-orm"
import type { DatabaseConnection } from "../database/connection.ts"
import { statement } from "../database/statement.ts"
import type { LedgerLog } from "../events.ts"
import { g } from "../schema/aliases.ts"
import { gateways } from "../schema/tables.ts"
import type { AttemptQueue } from "./attempts.ts"
import type { EndQueue } from "./ends.ts"
import type { Spool, SpoolFile } from "./spool.ts"
import type { WriteOutcome } from "./spooled-writes.ts"

const STATEMENT_MS = 5_000

const isDead = statement(
  "sweep",
  sql`SELECT ${g.id} FROM ${gateways} ${g} WHERE ${g.id} = $1::uuid AND ${g.dead_at} IS NOT NULL`,
)

interface ReplayParts {
  readonly spool: Spool
  readonly ends: EndQueue
  readonly attempts: AttemptQueue
  readonly connection: DatabaseConnection
  readonly log: LedgerLog
}

/** Writes what other processes of this directory spooled (D27). A file stays while a line of a dead one is not applied. */
export class Replay {
  readonly #parts: ReplayParts
  /** The content of each file when it was replayed; `whole` if all of it is in the ledger. */
  readonly #replayed = new Map<string, { readonly digest: string; readonly whole: boolean }>()

  constructor(parts: ReplayParts) {
    this.#parts = parts
  }

  async run(): Promise<void> {
    const { spool, connection } = this.#parts
    for (const file of await spool.others()) {
      if (!(await this.#replay(file))) continue
      const dead = await connection.run(isDead, [file.gateway_id], STATEMENT_MS)
      if (dead.length > 0) await spool.remove(file)
    }
  }

  async #replay({ path, digest, unreadable, ends, attempts }: SpoolFile): Promise<boolean> {
    const { log } = this.#parts
    const before = this.#replayed.get(path)
    if (before?.digest === digest) return before.whole
    if (unreadable > 0) {
      log.error(
        { path, lines: unreadable },
        "the spool has lines that this version cannot read: the file is kept",
      )
    }
    // Ends first, because they write lost holds again.
    const ended = await Promise.all(ends.map((spooled) => this.#parts.ends.resubmit(spooled)))
    const attempted = await Promise.all(
      attempts.map((attempt) => this.#parts.attempts.write(attempt, "spool")),
    )
    const count = (results: readonly WriteOutcome[], word: WriteOutcome) =>
      results.filter((result) => result === word).length
    const applied = count(ended, "applied")
    if (applied > 0) log.info({ path, ends: applied }, "wrote the spooled settlements of another process")
    const foreign = count(ended, "none")
    if (foreign > 0) {
      log.error({ path, ends: foreign }, "the spool has settlements without a hold: the file is kept")
    }
    const orphaned = count(attempted, "none")
    if (orphaned > 0)
      log.error({ path, attempts: orphaned }, "the spool has attempts without a hold: the file is kept")
    const all = [...ended, ...attempted]
    if (count(all, "unwritten") > 0) return false
    const whole = unreadable === 0 && foreign === 0 && orphaned === 0 && count(all, "refused") === 0
    this.#replayed.set(path, { digest, whole })
    return whole
  }
}

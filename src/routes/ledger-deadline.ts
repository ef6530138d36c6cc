import { DrizzleQueryError } from "drizzle-orm/errors"
import { GatewayError } from "../errors.ts"
import { errorCode } from "../ledger/database/database-errors.ts"
import { HOUR_MS } from "../ledger/database/span.ts"
import { EntriesArchived } from "../ledger/entries.ts"
import { printTime } from "../wire/time.ts"

/** How long the caller waits. */
export interface Deadline {
  readonly deadline_ms: number
  /** Which shard is asked, for the error; left out if there is one (D74). */
  readonly shard?: string
}

/**
 * Waits for an answer of the ledger. Throws `ledger_unavailable` (503) if it fails or is late; the error says that a
 * change may have been applied, with `fields` to look it up. A statement that Postgres rejects as invalid is a broken
 * invariant.
 */
export async function ask<Answer>(
  { deadline_ms, shard }: Deadline,
  question: Promise<Answer>,
  fields: Record<string, string> = {},
): Promise<Answer> {
  const deadline = Promise.withResolvers<never>()
  const timer = setTimeout(() => deadline.reject(unavailable(fields, "deadline", shard)), deadline_ms)
  try {
    return await Promise.race([question, deadline.promise])
  } catch (error) {
    if (error instanceof EntriesArchived) throw archivedBefore(error.until)
    // Drizzle's own message repeats the parameters; only what the driver said may reach a log.
    const cause = error instanceof DrizzleQueryError ? error.cause : error
    if (error === cause && !isFromDriver(error)) throw error
    throw isDefect(cause) ? cause : unavailable(fields, errorCode(cause), shard)
  } finally {
    clearTimeout(timer)
  }
}

/** The same for a question that reads many entries. */
export function askLong<Answer>(
  { sums_deadline_ms }: { readonly sums_deadline_ms: number },
  question: Promise<Answer>,
): Promise<Answer> {
  return ask({ deadline_ms: sums_deadline_ms }, question)
}

/** Up to the end of the hour, sums are all there is. */
function archivedBefore(until: Date): GatewayError {
  const hour = printTime(new Date(Math.ceil(until.getTime() / HOUR_MS) * HOUR_MS))
  return new GatewayError("archived", {
    message: `The entries before ${hour} are archived: ask for whole hours or days, and not by session.`,
  })
}

/** Whether the error is the database driver's: it has a code of the server or the system. */
function isFromDriver(error: unknown): boolean {
  return !(error instanceof GatewayError) && error instanceof Error && "code" in error
}

function unavailable(fields: Record<string, string>, cause: string, shard: string | undefined): GatewayError {
  const which = shard === undefined ? "The database" : `The database of shard ${shard}`
  return new GatewayError("ledger_unavailable", {
    message: `${which} did not respond. If the request was a change, it may have been applied: check before you repeat it.`,
    fields,
    cause,
  })
}

/** SQLSTATE classes of faults in a statement or its values: data, constraints, syntax, access. */
const DEFECTS = ["21", "22", "23", "42"]

function isDefect(cause: unknown): boolean {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined
  return typeof code === "string" && code.length === 5 && DEFECTS.includes(code.slice(0, 2))
}

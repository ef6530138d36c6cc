import { DrizzleQueryError } from "drizzle-orm/errors"
import { GatewayError } from "../errors.ts"
import { errorCode } from "../ledger/database/database-errors.ts"

/** How long whoever asks waits for the answer. */
export interface Deadline {
  readonly deadline_ms: number
}

/**
 * The ledger's answer. If it fails or does not come in time: 503 `ledger_unavailable`, which says that a change may have been
 * made, with `fields` that help to find out. A statement that Postgres finds wrong is a broken invariant.
 */
export async function ask<Answer>(
  { deadline_ms }: Deadline,
  question: Promise<Answer>,
  fields: Record<string, string> = {},
): Promise<Answer> {
  const deadline = Promise.withResolvers<never>()
  const timer = setTimeout(() => deadline.reject(unavailable(fields, "deadline")), deadline_ms)
  try {
    return await Promise.race([question, deadline.promise])
  } catch (error) {
    // Drizzle's own message repeats the parameters; only what the driver said may reach a log.
    const cause = error instanceof DrizzleQueryError ? error.cause : error
    if (error === cause && !isFromDriver(error)) throw error
    throw isDefect(cause) ? cause : unavailable(fields, errorCode(cause))
  } finally {
    clearTimeout(timer)
  }
}

/** The same for what reads many entries. */
export function askLong<Answer>(
  { sums_deadline_ms }: { readonly sums_deadline_ms: number },
  question: Promise<Answer>,
): Promise<Answer> {
  return ask({ deadline_ms: sums_deadline_ms }, question)
}

/** The driver's errors have a code, of the server or the system. Only our own carry an error code for clients. */
function isFromDriver(error: unknown): boolean {
  return !(error instanceof GatewayError) && error instanceof Error && "code" in error
}

function unavailable(fields: Record<string, string>, cause: string): GatewayError {
  return new GatewayError("ledger_unavailable", {
    message:
      "The database did not respond. If the request was a change, it may have been applied: check before you repeat it.",
    fields,
    cause,
  })
}

/** SQLSTATE classes of what is wrong with a statement or its values, not with the server: data, constraints, syntax, access. */
const DEFECTS = ["21", "22", "23", "42"]

function isDefect(cause: unknown): boolean {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined
  return typeof code === "string" && code.length === 5 && DEFECTS.includes(code.slice(0, 2))
}

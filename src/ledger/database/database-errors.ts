import postgres from "postgres"

/**
 * What a failed statement means for its items.
 * - `locked`: a lock was waited for too long; nothing was done.
 * - `incomplete`: the statement lost a row on its way and failed by its own assertion; nothing was done.
 * - `refused`: the data of some item cannot be written; nothing was done.
 * - `undone`: nothing was done, for a reason that has nothing to do with the items.
 * - `unknown`: it may have been done, or may still be.
 */
export type ErrorKind = "locked" | "incomplete" | "refused" | "undone" | "unknown"

/** The database did not answer in time. */
export class Overdue extends Error {
  override readonly name = "Overdue"

  constructor() {
    super("the database did not answer in time")
  }
}

/** A batch of which something was done, and then something failed. */
export class Uncertain extends Error {
  override readonly name = "Uncertain"

  constructor(cause: unknown) {
    super("a part of the batch was done", { cause })
  }
}

/** No connection was made, so nothing was sent. */
const UNSENT = new Set(["ECONNREFUSED", "ENOENT", "ENOTFOUND", "EAI_AGAIN", "CONNECT_TIMEOUT", "NO_PRIMARY"])
/** A division by zero: only the statements' assertions divide. */
const ASSERTION = "22012"
/** A statement that writes, sent to a standby or to an old primary. */
const READ_ONLY = "25006"
const NOT_SUPPORTED = "0A000"
/** The server refused the connection: starting or stopping, too many, wrong credentials, no such database. */
const NOT_LET_IN = /^(57P03|53300|28|3D)/

/**
 * A server's `ERROR` means that it has rolled back; of everything else only a connection that was never made is sure.
 */
export function kindOf(error: unknown): ErrorKind {
  if (error instanceof Uncertain) return "unknown"
  if (error instanceof postgres.PostgresError) {
    const { code, severity } = error
    if (NOT_LET_IN.test(code)) return "undone"
    if (severity !== "ERROR" || code.startsWith("08")) return "unknown"
    if (code === "55P03") return "locked"
    if (code === ASSERTION) return "incomplete"
    return /^(22|23)/.test(code) ? "refused" : "undone"
  }
  return UNSENT.has(errorCode(error)) ? "undone" : "unknown"
}

/**
 * Whether a lean statement has done nothing for a reason that the exact one may not have: some item, or a form that the
 * server does not take (Citus refuses a volatile function in an UPDATE, which `holdOne` and `endOne` have).
 */
export function isForExact(error: unknown): boolean {
  const kind = kindOf(error)
  return kind === "refused" || kind === "incomplete" || errorCode(error) === NOT_SUPPORTED
}

/** A refusal is an answer too, if it came from a server that goes on serving: one that turned read-only does not. */
export function isAnswer(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.severity === "ERROR" && error.code !== READ_ONLY
}

/** The SQLSTATE or the system's code of an error, for logs that must not show statements or values. */
export function errorCode(error: unknown): string {
  if (error instanceof Overdue) return "OVERDUE"
  if (error instanceof Uncertain) return errorCode(error.cause)
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "?"
}

import postgres from "postgres"

/**
 * Meaning of a failed statement for its items.
 * - `locked`: a lock timed out; nothing was done.
 * - `incomplete`: the statement lost a row and failed by its own assertion; nothing was done.
 * - `refused`: the data of some item cannot be written; nothing was done.
 * - `undone`: nothing was done, for a reason unrelated to the items.
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

/** A batch that failed after a part of it was done. */
export class Uncertain extends Error {
  override readonly name = "Uncertain"

  constructor(cause: unknown) {
    super("a part of the batch was done", { cause })
  }
}

/** No connection was made, so nothing was sent. */
export class Unsent extends Error {
  override readonly name = "Unsent"

  constructor(cause: unknown) {
    super("there is no connection", { cause })
  }
}

/** A division by zero: only the statements' assertions divide. */
const ASSERTION = "22012"
/** A statement that writes, sent to a standby or to an old primary. */
const READ_ONLY = "25006"
const NOT_SUPPORTED = "0A000"
/** The server refused the connection: starting or stopping, too many, wrong credentials, no such database. */
const NOT_LET_IN = /^(57P03|53300|28|3D)/

/** Classifies an error. A server's `ERROR` has rolled back; otherwise only a connection that was never made is sure. */
export function kindOf(error: unknown): ErrorKind {
  if (error instanceof Uncertain) return "unknown"
  if (error instanceof Unsent) return "undone"
  if (!(error instanceof postgres.PostgresError)) return "unknown"
  const { code, severity } = error
  if (NOT_LET_IN.test(code)) return "undone"
  if (severity !== "ERROR" || code.startsWith("08")) return "unknown"
  if (code === "55P03") return "locked"
  if (code === ASSERTION) return "incomplete"
  return /^(22|23)/.test(code) ? "refused" : "undone"
}

/** True if a lean statement has done nothing for a reason that the exact one may not have: some item, or its form. */
export function isForExact(error: unknown): boolean {
  const kind = kindOf(error)
  return kind === "refused" || kind === "incomplete" || isNotSupported(error)
}

/** True if the server does not support this form of a statement. */
export function isNotSupported(error: unknown): boolean {
  return errorCode(error) === NOT_SUPPORTED
}

/** True if the server answered. A refusal counts, unless the server turned read-only or is stopping. */
export function isAnswer(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.severity === "ERROR" && error.code !== READ_ONLY
}

/** The SQLSTATE, the driver's or the system's code of an error, for logs that must not show statements or values. */
export function errorCode(error: unknown): string {
  if (error instanceof Overdue) return "OVERDUE"
  if (error instanceof Uncertain || error instanceof Unsent) return errorCode(error.cause)
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "?"
}

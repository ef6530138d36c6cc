import { SQL } from "bun"
import postgres from "postgres"

/**
 * Meaning of a failed statement for its items.
 * - `locked`: a lock timed out; nothing was done.
 * - `incomplete`: the statement lost a row and failed by its own assertion; nothing was done.
 * - `refused`: the data of some item cannot be written; nothing was done.
 * - `undone`: nothing was done, for a reason unrelated to the items.
 * - `unknown`: it may have been done, or may still be.
 */
type ErrorKind = "locked" | "incomplete" | "refused" | "undone" | "unknown"

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

/** Rejects an item whose account could not be made ready. Nothing was done for the item. */
export class Delayed extends Error {
  override readonly name = "Delayed"

  constructor() {
    super("the account was not ready in time")
  }
}

/** Nothing was sent. `FAILED`: the connection was closed before it was made, or its host does not answer. */
const UNSENT = new Set([
  "ERR_POSTGRES_CONNECTION_REFUSED",
  "ERR_POSTGRES_CONNECTION_FAILED",
  "ERR_POSTGRES_CONNECTION_TIMEOUT",
  "NO_PRIMARY",
  "SESSION_CLOSED",
])
/** A division by zero: only the statements' assertions divide. */
const ASSERTION = "22012"
/** A statement that writes, sent to a standby or to an old primary. */
const READ_ONLY = "25006"
const NOT_SUPPORTED = "0A000"
/** No such prepared statement; another one of that name. */
const PLAN_LOST = new Set(["26000", "42P05"])
/** The server refused the connection: starting or stopping, too many, wrong credentials, no such database. */
const NOT_LET_IN = /^(57P03|53300|28|3D)/

/** The SQLSTATE and the severity; null for an error that the server has not sent. Bun's driver has the SQLSTATE in `errno`. */
function serverErrorOf(error: unknown) {
  if (error instanceof postgres.PostgresError) return error
  if (!(error instanceof SQL.PostgresError) || error.errno === undefined) return null
  return { code: error.errno, severity: error.severity ?? "" }
}

/** Classifies an error. A server's `ERROR` has rolled back; otherwise only what was never sent is sure. */
export function kindOf(error: unknown): ErrorKind {
  if (error instanceof Uncertain) return "unknown"
  const server_error = serverErrorOf(error)
  if (server_error === null) return UNSENT.has(errorCode(error)) ? "undone" : "unknown"
  const { code, severity } = server_error
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

export function isNotSupported(error: unknown): boolean {
  return errorCode(error) === NOT_SUPPORTED
}

/** True if the server answered. A refusal counts, unless the server turned read-only or is stopping. */
export function isAnswer(error: unknown): boolean {
  const server_error = serverErrorOf(error)
  return server_error !== null && server_error.severity === "ERROR" && server_error.code !== READ_ONLY
}

/** True if the server, behind a pooler, does not know a statement's name, or has another of that name. */
export function isPlanLost(error: unknown): boolean {
  return PLAN_LOST.has(serverErrorOf(error)?.code ?? "")
}

/** The SQLSTATE, the driver's or the system's code of an error, for logs that must not show statements or values. */
export function errorCode(error: unknown): string {
  if (error instanceof Overdue) return "OVERDUE"
  if (error instanceof Delayed) return "DELAYED"
  if (error instanceof Uncertain) return errorCode(error.cause)
  const server_error = serverErrorOf(error)
  if (server_error !== null) return server_error.code
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "?"
}

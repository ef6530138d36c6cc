/** The admin token, kept only in the session storage of this tab (D50). */

const PLACE = "tollgate-admin-token"

let onClose: (reason: string) => void = () => {}

/** Null if signed out. */
export function tokenOf(): string | null {
  return sessionStorage.getItem(PLACE)
}

export function openSession(token: string): void {
  sessionStorage.setItem(PLACE, token)
}

/** Forgets the token; the sign-in form shows `reason`. */
export function closeSession(reason: string): void {
  if (tokenOf() === null) return
  sessionStorage.removeItem(PLACE)
  onClose(reason)
}

/** Sets the callback for the end of the session. */
export function whenClosed(listener: (reason: string) => void): void {
  onClose = listener
}

/** An error response of the gateway. */
export class AdminError extends Error {
  override readonly name = "AdminError"
  /** 0 if there was no response. */
  readonly status: number
  readonly code: string
  /** The field that caused the error. */
  readonly param: string | null

  constructor(status: number, code: string, message: string, param: string | null) {
    super(message)
    this.status = status
    this.code = code
    this.param = param
  }
}

export interface Listed<Body> {
  readonly data: readonly Body[]
  readonly next: string | null
}

/** Reads from `/admin`. A rejected token ends the session. Throws `AdminError`, or the reason of `signal`. */
export async function ask<Body>(path: string, signal?: AbortSignal): Promise<Body> {
  try {
    return await send<Body>("GET", path, undefined, signal)
  } catch (error) {
    if (!(error instanceof AdminError) || error.code !== "ledger_unavailable") throw error
    const words =
      "The database did not respond. It is unavailable, or the query is too large: try a shorter time range."
    throw new AdminError(error.status, error.code, words, null)
  }
}

/** Changes something in `/admin`. Throws `AdminError`. */
export async function tell<Body>(
  method: "POST" | "PATCH" | "DELETE",
  path: string,
  body?: object,
): Promise<Body> {
  return await send<Body>(method, path, body)
}

/** Whether the gateway accepts this token. Throws `AdminError` on any other failure. */
export async function isToken(token: string): Promise<boolean> {
  const answer = await request("GET", "/accounts?limit=1", token)
  if (answer.status === 401) return false
  if (!answer.ok) throw await refusalOf(answer)
  return true
}

async function send<Body>(method: string, path: string, body?: object, signal?: AbortSignal): Promise<Body> {
  const answer = await request(method, path, tokenOf() ?? "", body, signal)
  if (answer.status === 401) closeSession("The gateway no longer accepts this token. Sign in again.")
  if (!answer.ok) throw await refusalOf(answer)
  const text = await answer.text()
  return JSON.parse(text === "" ? "null" : text)
}

async function request(
  method: string,
  path: string,
  token: string,
  body?: object,
  signal?: AbortSignal,
): Promise<Response> {
  const { href, pathname } = new URL(`/admin${path}`, location.origin)
  // An id from the address bar could contain `..`: the token must not be sent to other paths.
  if (!pathname.startsWith("/admin/"))
    throw new AdminError(404, "not_found", "This page does not exist.", null)
  try {
    return await fetch(href, {
      method,
      credentials: "omit",
      cache: "no-store",
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new AdminError(0, "unreachable", "The gateway cannot be reached. Check that it is running.", null)
  }
}

interface ErrorBody {
  readonly error: { readonly code: string; readonly message: string; readonly param: string | null }
}

async function refusalOf(answer: Response): Promise<AdminError> {
  const text = await answer.text()
  try {
    const { error }: ErrorBody = JSON.parse(text)
    return new AdminError(answer.status, error.code, error.message, error.param)
  } catch {
    return new AdminError(answer.status, "unknown", `The gateway returned status ${answer.status}.`, null)
  }
}

/**
 * A UUIDv7 for a new entity, so that a retry does not create it twice. `crypto.randomUUID` is not available on pages without
 * HTTPS.
 */
export function ownId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(10))
  const random = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")
  const time = Date.now().toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6, 18)}`
}

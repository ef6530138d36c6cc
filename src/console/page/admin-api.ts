/** Sends a request to `/admin`. The browser adds the cookie of the session, which this page cannot read (D50). */

const ENDED = "The session has ended. Sign in again."
const SIGNED_OUT = "You have signed out."

let is_signed_in = false
/** Why a request gets a 401 now: one that is under way while the person signs out gets it too. */
let why_closed = ENDED
let onClose: (reason: string) => void = () => {}

export function isSignedIn(): boolean {
  return is_signed_in
}

/** Finds out whether the browser has an open session. If the gateway does not answer, the views are shown with the error. */
export async function findSession(): Promise<boolean> {
  const answer = await request("GET", "/accounts?limit=1").catch(() => null)
  is_signed_in = answer?.status !== 401
  return is_signed_in
}

/** Opens a session; returns false if this is not the admin token. Throws `AdminError` on any other failure. */
export async function openSession(token: string): Promise<boolean> {
  const answer = await request("POST", "/session", { authorization: `Bearer ${token}` })
  if (answer.status === 401) return false
  if (!answer.ok) throw await refusalOf(answer)
  is_signed_in = true
  return true
}

/** Ends the session. Throws `AdminError` if the gateway has not ended it. */
export async function endSession(): Promise<void> {
  why_closed = SIGNED_OUT
  try {
    await tell("DELETE", "/session")
    closeSession(SIGNED_OUT)
  } finally {
    why_closed = ENDED
  }
}

/** Shows the sign-in form with `reason`, once. */
function closeSession(reason: string): void {
  if (!is_signed_in) return
  is_signed_in = false
  onClose(reason)
}

/** Sets the callback for the end of the session. */
export function whenClosed(listener: (reason: string) => void): void {
  onClose = listener
}

export function faultWords(error: unknown): string {
  return error instanceof AdminError
    ? error.message.replaceAll("`", "")
    : "The console had an error. Reload the page."
}

/** An error response of the gateway. The status is 0 if there was none; `param` is the field that caused the error. */
export class AdminError extends Error {
  override readonly name = "AdminError"
  readonly status: number
  readonly code: string
  readonly param: string | null

  constructor(status: number, code: string, message: string, param: string | null = null) {
    super(message)
    this.status = status
    this.code = code
    this.param = param
  }
}

export interface ListBody<Body> {
  readonly data: readonly Body[]
  readonly next: string | null
}

/** Reads from `/admin`. A rejected session is closed. Throws `AdminError`, or the reason of `signal`. */
export async function ask<Body>(path: string, signal?: AbortSignal): Promise<Body> {
  try {
    return await send<Body>("GET", path, undefined, signal)
  } catch (error) {
    if (!(error instanceof AdminError) || error.code !== "ledger_unavailable") throw error
    const words =
      "The database did not respond. It is unavailable, or the query is too large: try a shorter time range."
    throw new AdminError(error.status, error.code, words)
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

async function send<Body>(method: string, path: string, body?: object, signal?: AbortSignal): Promise<Body> {
  const answer = await request(method, path, { body, signal })
  if (answer.status === 401) closeSession(why_closed)
  return bodyOf(answer)
}

function request(method: string, path: string, more: Partial<PageRequest> = {}): Promise<Response> {
  return answerTo("/admin", path, { method, credentials: "same-origin", ...more })
}

interface PageRequest {
  readonly method: string
  readonly credentials: RequestCredentials
  readonly authorization?: string
  readonly body?: object | undefined
  readonly signal?: AbortSignal | undefined
}

/** The answer of the gateway below `base`. Throws `AdminError` if there is none, or the reason of the signal. */
export async function answerTo(
  base: "/admin" | "/v1",
  path: string,
  { authorization, body, signal, ...options }: PageRequest,
): Promise<Response> {
  const { href, pathname } = new URL(`${base}${path}`, location.origin)
  // An id from the address bar could contain `..`: nothing outside of the base may be asked.
  if (!pathname.startsWith(`${base}/`)) throw new AdminError(404, "not_found", "This page does not exist.")
  const headers = {
    ...(authorization !== undefined && { authorization }),
    ...(body !== undefined && { "content-type": "application/json" }),
  }
  const content = body === undefined ? null : JSON.stringify(body)
  try {
    return await fetch(href, {
      ...options,
      cache: "no-store",
      headers,
      body: content,
      signal: signal ?? null,
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new AdminError(0, "unreachable", "The gateway cannot be reached. Check that it is running.")
  }
}

/** The JSON of an answer; null for an empty one. Throws `AdminError` for a refusal. */
export async function bodyOf<Body>(answer: Response): Promise<Body> {
  if (!answer.ok) throw await refusalOf(answer)
  return JSON.parse((await answer.text()) || "null")
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
    return new AdminError(answer.status, "unknown", `The gateway returned status ${answer.status}.`)
  }
}

/** A UUIDv7 for a new entity, so that a retry makes no other. Pages without HTTPS have no `randomUUID`. */
export function ownId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(10))
  const random = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")
  const time = Date.now().toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6, 18)}`
}

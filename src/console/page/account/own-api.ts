import { AdminError, answerTo, refusalOf } from "../admin-api.ts"

/** The key that was typed in. It is nowhere else: a reload forgets it (D104). */
let key: string | null = null
let onForgotten: (reason: string) => void = () => {}

export function useKey(given: string): void {
  key = given
}

export function forgetKey(reason: string): void {
  key = null
  onForgotten(reason)
}

/** Sets the callback for a key that is forgotten or no longer accepted. */
export function whenForgotten(listener: (reason: string) => void): void {
  onForgotten = listener
}

/** Reads from `/v1` with the key. Throws `AdminError`, or the reason of `signal`. */
export function askOwn<Body>(path: string, signal?: AbortSignal): Promise<Body> {
  return send<Body>("GET", path, undefined, signal)
}

/** Changes something in `/v1`. Throws `AdminError`. */
export function tellOwn<Body>(method: "POST" | "DELETE", path: string, body?: object): Promise<Body> {
  return send<Body>(method, path, body)
}

async function send<Body>(method: string, path: string, body?: object, signal?: AbortSignal): Promise<Body> {
  const { href, pathname } = new URL(`/v1${path}`, location.origin)
  // An id from the address bar could contain `..`: nothing but `/v1` may be asked.
  if (!pathname.startsWith("/v1/")) throw new AdminError(404, "not_found", "This page does not exist.")
  const answer = await answerTo(href, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    credentials: "omit",
    cache: "no-store",
    ...(signal === undefined ? {} : { signal }),
  })
  if (answer.ok) return JSON.parse((await answer.text()) || "null")
  const refusal = await refusalOf(answer)
  if (answer.status === 401) forgetKey("The key is no longer accepted.")
  throw refusal
}

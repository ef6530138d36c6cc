import { answerTo, bodyOf } from "../admin-api.ts"

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
  const authorization = `Bearer ${key}`
  const answer = await answerTo("/v1", path, { method, authorization, credentials: "omit", body, signal })
  if (answer.status === 401) forgetKey("The key is no longer accepted.")
  return bodyOf(answer)
}

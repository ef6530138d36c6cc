import { DROPPED_BYTES, unreadBytes } from "../admission/unread-bodies.ts"
import type { ErrorCode, GatewayError } from "../errors.ts"

type Refuse = (request: Request) => Promise<Response>

/** Errors that depend only on the head of a request. */
const OF_HEADS: ReadonlySet<ErrorCode> = new Set(["invalid_api_key", "overloaded"])
/** The headers on which these errors and their answers depend. */
const HEADERS = ["authorization", "x-api-key", "content-length", "content-type", "content-encoding"]

/**
 * Refuses calls with large bodies whose heads equal that of one refused in the same turn of the event loop (D112), without checking
 * the key and the free memory again.
 */
export class RepeatedRefusals {
  /** By the heads of the calls. Emptied after the turn. */
  readonly #refusals = new Map<string, Refuse>()

  /** The answer to a request that repeats a refused one; null for any other. */
  answer(request: Request): Promise<Response> | null {
    // Most turns refuse nothing, so most requests need not read the head.
    if (this.#refusals.size === 0 || !mayRepeat(request)) return null
    return this.#refusals.get(headOf(request))?.(request) ?? null
  }

  /** Remembers a refusal. `refuse` answers any request with this error. */
  add(request: Request, fault: GatewayError, refuse: Refuse): void {
    const { count } = fault.detail
    if (count === undefined || !OF_HEADS.has(fault.code) || request.bodyUsed || !mayRepeat(request)) return
    if (this.#refusals.size === 0) setImmediate(() => this.#refusals.clear())
    this.#refusals.set(headOf(request), (repeated) => {
      count()
      return refuse(repeated)
    })
  }
}

/** True for a body that is large or has no announced length, unless the call may have a stored answer (D43) or needs the headers for its origin (D40). */
function mayRepeat({ headers }: Request): boolean {
  return unreadBytes(headers) > DROPPED_BYTES && !headers.has("idempotency-key") && !headers.has("origin")
}

function headOf({ method, url, headers }: Request): string {
  return JSON.stringify([method, url, ...HEADERS.map((name) => headers.get(name))])
}

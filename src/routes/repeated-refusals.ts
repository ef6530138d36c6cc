import { DROPPED_BYTES, unreadBytes } from "../admission/unread-bodies.ts"
import type { ErrorCode, GatewayError } from "../errors.ts"

type Refuse = (request: Request) => Promise<Response>

/** Faults that the head of a request has, whatever its body is. */
const OF_HEADS: ReadonlySet<ErrorCode> = new Set(["invalid_api_key", "overloaded"])
/** All headers on which these faults and their answers depend. */
const HEADERS = ["authorization", "x-api-key", "content-length", "content-type", "content-encoding"]

/**
 * Refuses calls with large bodies whose heads equal that of one refused in the same turn of the event loop (D112), without asking
 * again who calls and what is free.
 */
export class RepeatedRefusals {
  /** By the heads of the calls. Emptied after the turn. */
  readonly #refusals = new Map<string, Refuse>()

  /** The answer to a request that repeats a refused one; null for any other. */
  answer(request: Request): Promise<Response> | null {
    // Almost every turn refuses nothing, and to read a head costs 3 us.
    if (this.#refusals.size === 0 || !mayRepeat(request)) return null
    return this.#refusals.get(headOf(request))?.(request) ?? null
  }

  /** `refuse` answers any request with this fault. */
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

/** True for a large body. A repeated call may have an answer that is kept (D43), and a browser needs headers of its own (D40). */
function mayRepeat({ headers }: Request): boolean {
  return unreadBytes(headers) > DROPPED_BYTES && !headers.has("idempotency-key") && !headers.has("origin")
}

function headOf({ method, url, headers }: Request): string {
  return JSON.stringify([method, url, ...HEADERS.map((name) => headers.get(name))])
}

import { nextId } from "../id.ts"

declare global {
  interface Request {
    /**
     * Set by `requestId`. A property and not a WeakMap, because the garbage collector visits a WeakMap's entries one by
     * one.
     */
    tollgate_id?: string
  }
}

/** The id of a request: made once, shown in every answer, and the id of its call in the ledger (D16). */
export function requestId(request: Request): string {
  request.tollgate_id ??= nextId()
  return request.tollgate_id
}

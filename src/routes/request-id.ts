import { nextId } from "../id.ts"

const ids = new WeakMap<Request, string>()

/** The id of a request: made once, shown in every answer, and the id of its call in the books (D16). */
export function requestId(request: Request): string {
  const known = ids.get(request)
  if (known !== undefined) return known
  const id = nextId()
  ids.set(request, id)
  return id
}

/** How the applications route: unknown members are refused, and not dropped silently. */
export const ROUTING = {
  strictPath: true,
  normalize: false,
  handler: { standardHostname: false },
} as const

/**
 * A hook before validation that parses the query string. A parameter that is given twice is a list, which no schema
 * accepts; Elysia would take the last one. The function does not name `query` in its arguments, because Elysia would
 * then parse it for every route, calls too.
 */
export function readQuery({ request }: { request: Request }): { query: unknown } {
  const given = new URL(request.url).searchParams
  const names = [...new Set(given.keys())]
  const query = names.map((name) => {
    const [value, ...more] = given.getAll(name)
    return [name, more.length === 0 ? value : [value, ...more]]
  })
  return { query: Object.fromEntries(query) }
}

/** A hook after the handler: answers for an account or an operator must not be cached. */
export function forbidStoring({ set }: { set: { headers: object } }): void {
  Object.assign(set.headers, { "cache-control": "no-store" })
}

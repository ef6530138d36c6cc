/** How the applications route: what a schema does not know is refused, and not left out in silence. */
export const ROUTING = {
  strictPath: true,
  normalize: false,
  handler: { standardHostname: false },
} as const

/**
 * A hook before validation: the parameters of the query string. One that is given twice is a list, which no schema takes;
 * Elysia itself would take the last. It does not name `query` in its arguments, or Elysia would parse that for every
 * route, calls too.
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

/** A hook after the handler: what an account or an operator is told is theirs alone, and no cache keeps it. */
export function forbidStoring({ set }: { set: { headers: object } }): void {
  Object.assign(set.headers, { "cache-control": "no-store" })
}

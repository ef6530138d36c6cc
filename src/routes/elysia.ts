/** How the applications route: what a schema does not know is refused, and not left out in silence. */
export const ROUTING = {
  strictPath: true,
  normalize: false,
  handler: { standardHostname: false },
} as const

/**
 * A hook before validation: a parameter that is given twice is a list of values, which no schema takes. Elysia itself
 * would take the last.
 */
export function keepRepeated({ request, query }: { request: Request; query: object }): void {
  const given = new URL(request.url).searchParams
  for (const name of new Set(given.keys())) {
    const values = given.getAll(name)
    Object.assign(query, { [name]: values.length > 1 ? values : values[0] })
  }
}

/** A hook after the handler: what an account or an operator is told is theirs alone, and no cache keeps it. */
export function forbidStoring({ set }: { set: { headers: object } }): void {
  Object.assign(set.headers, { "cache-control": "no-store" })
}

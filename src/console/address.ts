/** Where in the console one is: what stands behind the `#`, so that links, reloads and the way back work. Never the token. */
export interface Address {
  /** `""` is the overview. */
  readonly view: string
  readonly id: string | null
  readonly query: Readonly<Record<string, string>>
}

const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/i

export function parseAddress(hash: string): Address {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split("?", 2)
  const [view = "", id] = path.split("/")
  return {
    view,
    id: id === undefined || id === "" ? null : id,
    query: Object.fromEntries(new URLSearchParams(search)),
  }
}

/** `#/calls?state=open`; what is empty in the query is left out. */
export function addressOf(
  view: string,
  id: string | null = null,
  query: Readonly<Record<string, string>> = {},
): string {
  const given = Object.entries(query).filter(([, value]) => value !== "")
  const search = new URLSearchParams(given).toString()
  return `#/${view}${id === null ? "" : `/${encodeURIComponent(id)}`}${search === "" ? "" : `?${search}`}`
}

/** The id in what somebody pasted: an id, a header's line, a sentence of a log. */
export function idIn(text: string): string | null {
  return UUID.exec(text)?.[0].toLowerCase() ?? null
}

/** The first and the last characters of an id: calls of one minute begin alike. */
export function shortId(id: string): string {
  return id.length > 16 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id
}

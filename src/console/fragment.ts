/** The address in the console, kept in the URL fragment so that links, reloads and the back button work. Never contains the token. */
export interface PageAddress {
  /** `""` is the overview. */
  readonly view: string
  readonly id: string | null
  readonly query: PageQuery
}

export type PageQuery = Readonly<Record<string, string>>

const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/i

export function parseAddress(hash: string): PageAddress {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split("?", 2)
  const [view = "", id = ""] = path.split("/")
  return { view, id: id || null, query: Object.fromEntries(new URLSearchParams(search)) }
}

/** `#/calls?state=open` */
export function addressOf(view: string, id: string | null = null, query: PageQuery = {}): string {
  return withQuery(`#/${view}${id === null ? "" : `/${encodeURIComponent(id)}`}`, query)
}

/** The path with the query behind it; empty values are omitted. */
export function withQuery(path: string, query: PageQuery): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString()
  return search === "" ? path : `${path}?${search}`
}

/** Finds the id in pasted text: an id, a header line or a log line. */
export function idIn(text: string): string | null {
  return UUID.exec(text)?.[0].toLowerCase() ?? null
}

/** The first and last characters of an id, because ids of the same minute start alike. */
export function shortId(id: string): string {
  return id.length > 16 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id
}

/** One page of a list, newest first: at most `limit` rows, those after the row with the id `after`. */
export interface Page {
  readonly limit: number
  readonly after: string | null
}

/** A page's rows; `next` is the `after` of the following page, null when there is none. */
export interface Listed<Row> {
  readonly data: readonly Row[]
  readonly next: string | null
}

/** `rows` as a page, of which one row more than the page holds was asked for: it only tells that there is another page. */
export function paged<Row extends { readonly id: string }>(
  rows: readonly Row[],
  { limit }: Page,
): Listed<Row> {
  const data = rows.slice(0, limit)
  return { data, next: rows.length > limit ? (data.at(-1)?.id ?? null) : null }
}

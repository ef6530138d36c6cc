import { lt, type SQL } from "drizzle-orm"
import type { PgColumn } from "drizzle-orm/pg-core"

/** One page of a list, newest first: at most `limit` rows, those after the row with the id `after`. */
export interface Page {
  readonly limit: number
  readonly after: string | null
}

/** A page's rows; `next` is the `after` of the following page, null when there is none. */
export interface PageOf<Row> {
  readonly data: readonly Row[]
  readonly next: string | null
}

/** Makes a page of `rows`, which have one row more than `limit` if there is a next page. */
export function paged<Row extends { readonly id: string }>(
  rows: readonly Row[],
  { limit }: Page,
): PageOf<Row> {
  const data = rows.slice(0, limit)
  return { data, next: rows.length > limit ? (data.at(-1)?.id ?? null) : null }
}

/** The condition on the rows of a page, whose order is that of their ids. */
export function isAfter({ after }: Page, id: PgColumn): SQL | undefined {
  return after === null ? undefined : lt(id, after)
}

/** The page of a query that gives its rows newest first. */
export async function pageOf<Row extends { readonly id: string }>(
  page: Page,
  query: { limit(most: number): PromiseLike<readonly Row[]> },
): Promise<PageOf<Row>> {
  return paged(await query.limit(page.limit + 1), page)
}

/** The order of two values of a column. Texts by their bytes, like the collation C. */
export function compared(left: string | bigint, right: string | bigint): number {
  if (typeof left === "string" && typeof right === "string")
    return Buffer.compare(Buffer.from(left), Buffer.from(right))
  return left < right ? -1 : left > right ? 1 : 0
}

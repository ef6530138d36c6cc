import { lt, type SQL } from "drizzle-orm"
import type { PgColumn } from "drizzle-orm/pg-core"
import { nextTurn } from "../../wire/shape.ts"

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

/** The time that a long list keeps the event loop before others get a turn. */
const TURN_MS = 5

/** Resolves in the next turn of the event loop if the work has taken its time of this one; null if it may go on. */
export function turns(): () => Promise<void> | null {
  let until_ms = performance.now() + TURN_MS
  return () =>
    performance.now() < until_ms
      ? null
      : nextTurn().then(() => {
          until_ms = performance.now() + TURN_MS
        })
}

/** Maps a list that may be long, with turns of the event loop between its items. */
export async function mapInTurns<Item, Result>(
  items: readonly Item[],
  map: (item: Item) => Result,
): Promise<Result[]> {
  const results: Result[] = []
  const turn = turns()
  for (const item of items) {
    const next = turn()
    if (next !== null) await next
    results.push(map(item))
  }
  return results
}

/** Items that are sorted without a turn between them. */
const RUN = 500

/** Sorts a list that may be long, with turns of the event loop meanwhile. */
export async function sortInTurns<Item>(
  items: readonly Item[],
  compare: (one: Item, other: Item) => number,
  turn = turns(),
): Promise<readonly Item[]> {
  if (items.length <= RUN) return items.toSorted(compare)
  const middle = items.length >> 1
  const left = await sortInTurns(items.slice(0, middle), compare, turn)
  const right = (await sortInTurns(items.slice(middle), compare, turn)).values()
  const sorted: Item[] = []
  let other = right.next()
  for (const one of left) {
    for (; other.done !== true && compare(other.value, one) < 0; other = right.next())
      sorted.push(other.value)
    sorted.push(one)
    const next = turn()
    if (next !== null) await next
  }
  for (; other.done !== true; other = right.next()) sorted.push(other.value)
  return sorted
}

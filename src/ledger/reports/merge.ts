import type { Page, PageOf } from "../database/page.ts"

/** The answers of several shards as one (D74). The sums of each report are added beside it. */

const NOT_FOUND = new Error("not found")

/** The first answer that is not null; null if all are. Rejects if there is none and some failed. */
export async function firstFound<Answer>(lookups: readonly Promise<Answer | null>[]): Promise<Answer | null> {
  const [only, ...others] = lookups
  if (only !== undefined && others.length === 0) return only
  const found = lookups.map(async (one) => {
    const answer = await one
    if (answer === null) throw NOT_FOUND
    return answer
  })
  try {
    return await Promise.any(found)
  } catch (error) {
    const failures: readonly unknown[] = error instanceof AggregateError ? error.errors : [error]
    const failure = failures.findLast((each) => each !== NOT_FOUND)
    if (failure !== undefined) throw failure
    return null
  }
}

/** Merges pages, newest first, as far as the last row of each shard that has more. */
export function mergePages<Row extends { readonly id: string }>(
  pages: readonly PageOf<Row>[],
  { limit }: Pick<Page, "limit">,
): PageOf<Row> {
  const bounds = pages.flatMap(({ next }) => (next === null ? [] : [next]))
  const bound = bounds.sort().at(-1) ?? null
  const rows = pages
    .flatMap(({ data }) => data)
    .filter(({ id }) => bound === null || id >= bound)
    .sort((left, right) => (left.id < right.id ? 1 : -1))
  const data = rows.slice(0, limit)
  return { data, next: rows.length > limit ? (data.at(-1)?.id ?? null) : bound }
}

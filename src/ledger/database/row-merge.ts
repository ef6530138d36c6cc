/** The rows of several shards; those with the same key are added. */
export function mergeRows<Row>(
  parts: readonly (readonly Row[])[],
  keyOf: (row: Row) => string | number,
  add: (one: Row, other: Row) => Row,
): Row[] {
  return [...Map.groupBy(parts.flat(), keyOf).values()].map((same) => same.reduce(add))
}

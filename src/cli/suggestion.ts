/** The most likely intended word: one that starts with `typed`, or the closest within two edits; null if there is none. */
export function nearest(typed: string, known: readonly string[]): string | null {
  const begun = known.find((word) => typed.length >= 2 && word.startsWith(typed))
  if (begun !== undefined) return begun
  const most = Math.min(2, Math.floor(typed.length / 2))
  const [best] = known
    .map((word) => ({ word, slips: slipsBetween(typed, word) }))
    .filter(({ slips }) => slips <= most)
    .sort((one, other) => one.slips - other.slips)
  return best?.word ?? null
}

/** The edit distance: letters dropped, added, changed or swapped with their neighbour (optimal string alignment). */
function slipsBetween(one: string, other: string): number {
  let before: number[] = []
  let last = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (let row = 1; row <= one.length; row++) {
    const current = [row]
    for (let column = 1; column <= other.length; column++) {
      const same = one[row - 1] === other[column - 1]
      const swapped = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
      current[column] = Math.min(
        at(last, column) + 1,
        at(current, column - 1) + 1,
        at(last, column - 1) + (same ? 0 : 1),
        swapped ? at(before, column - 2) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    before = last
    last = current
  }
  return at(last, other.length)
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY
}

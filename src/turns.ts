import { nextTurn } from "./wire/shape.ts"

/** Work on long lists, between whose items others get a turn of the event loop. */

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

/** Groups a list that may be long. */
export async function groupInTurns<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
): Promise<ReadonlyMap<string, readonly Item[]>> {
  const groups = new Map<string, Item[]>()
  await mapInTurns(items, (item) => {
    const key = keyOf(item)
    const known = groups.get(key)
    if (known === undefined) groups.set(key, [item])
    else known.push(item)
  })
  return groups
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

import { type Bucket, buckets, isFree, type Price, parentOf } from "../money.ts"
import type { Note } from "../wire/call.ts"
import type { Usage } from "../wire/usage.ts"

/** The most searches one answer is believed to have made (D60). */
const MAX_SEARCHES = 1_000

const NOBODY_CAN_GUESS: ReadonlySet<Bucket> = new Set([
  "audio_input",
  "audio_output",
  "image_input",
  "web_search",
])

interface Bucketed {
  readonly usage: Usage
  readonly notes: readonly Note[]
}

/**
 * Usage with the buckets that the price names (D60), none larger than what is left of its parent. All others are charged as
 * their parent, which is noted where their price cannot be guessed from it. `searches` are charged if none are counted.
 */
export function bucketed(usage: Usage, price: Price, searches: number): Bucketed {
  if (usage.buckets === undefined && searches === 0) return { usage, notes: [] }
  const { buckets: said = {}, ...counts } = usage
  const prices = price.buckets ?? {}
  const notes = new Set<Note>()
  const room = { input: counts.prompt_tokens - counts.cached_tokens, output: counts.completion_tokens }
  const kept: Partial<Record<Bucket, number>> = {}
  const keep = (bucket: Bucket, count: number) => {
    const parent = parentOf[bucket]
    const fitting = Math.min(count, parent === null ? MAX_SEARCHES : room[parent])
    if (fitting < count) notes.add("details_clamped")
    if (parent !== null) room[parent] -= fitting
    if (fitting > 0) kept[bucket] = (kept[bucket] ?? 0) + fitting
  }
  for (const bucket of buckets) {
    const count = said[bucket] ?? 0
    const named = bucket === "cache_write_1h" && prices[bucket] === undefined ? "cache_write" : bucket
    if (count === 0) continue
    if (prices[named] !== undefined) keep(named, count)
    else if (NOBODY_CAN_GUESS.has(bucket) && !isFree(price)) notes.add("unpriced")
  }
  if (said.web_search === undefined && searches > 0 && prices.web_search !== undefined) {
    keep("web_search", searches)
    notes.add("searches_estimated")
  }
  return {
    usage: Object.keys(kept).length === 0 ? counts : { ...counts, buckets: kept },
    notes: [...notes],
  }
}

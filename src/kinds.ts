/** The kinds that a price can name besides input, cached input, output and the call (D60), from which all else follows. */

type Plain = "input" | "cached_input" | "output"
type ChargeUnit = "token" | "search" | "page" | "run" | "call"
/** The part of a call for which a kind's price is held, because it may be charged at it (D12). */
type HeldFor = "text" | "image" | "audio" | "output" | "request"

interface KindRow {
  /** The plain kind that its tokens are a part of. */
  readonly part_of?: Plain
  /** Default: token. */
  readonly unit?: ChargeUnit
  readonly held_for: HeldFor
  /** The kind whose price applies if it has none. Without `otherwise` it must have a price (D60). */
  readonly otherwise?: string
  /** For a receipt. */
  readonly label: string
  /** For the column of a table. */
  readonly title: string
}

const rows = {
  cache_write: {
    part_of: "input",
    held_for: "text",
    otherwise: "input",
    label: "cache writes",
    title: "CACHE WRITE",
  },
  cache_write_1h: {
    part_of: "input",
    held_for: "text",
    otherwise: "cache_write",
    label: "1 h cache writes",
    title: "CACHE WRITE 1H",
  },
  reasoning: {
    part_of: "output",
    held_for: "output",
    otherwise: "output",
    label: "reasoning",
    title: "REASONING",
  },
  audio_input: {
    part_of: "input",
    held_for: "audio",
    label: "prompt audio",
    title: "AUDIO IN",
  },
  audio_output: {
    part_of: "output",
    held_for: "request",
    label: "output audio",
    title: "AUDIO OUT",
  },
  image_input: {
    part_of: "input",
    held_for: "image",
    label: "prompt images",
    title: "IMAGE IN",
  },
  web_search: {
    unit: "search",
    held_for: "request",
    label: "web searches",
    title: "SEARCHES",
  },
  image_output: {
    part_of: "output",
    held_for: "output",
    label: "output images",
    title: "IMAGE OUT",
  },
  cached_audio_input: {
    part_of: "cached_input",
    held_for: "audio",
    otherwise: "cached_input",
    label: "cached prompt audio",
    title: "CACHED AUDIO",
  },
  page: {
    unit: "page",
    held_for: "request",
    label: "pages",
    title: "PAGES",
  },
} as const satisfies Readonly<Record<string, KindRow>>

export type Bucket = keyof typeof rows
type TokenBucket = {
  [Name in Bucket]: (typeof rows)[Name] extends { part_of: Plain } ? Name : never
}[Bucket]
type FeeBucket = Exclude<Bucket, TokenBucket>

export function recordOf<Name extends string, Value>(
  names: readonly Name[],
  toValue: (name: Name) => Value,
): Record<Name, Value> {
  return Object.fromEntries(names.map((name) => [name, toValue(name)])) as Record<Name, Value>
}

/** In the order of the table, in which the ledger keeps their counts. */
export const buckets = Object.keys(rows) as readonly Bucket[]
export const tokenBuckets = buckets.filter((bucket): bucket is TokenBucket => "part_of" in rows[bucket])
export const feeBuckets = buckets.filter((bucket): bucket is FeeBucket => "unit" in rows[bucket])

export function picoRecord<Value>(toValue: (bucket: Bucket) => Value): Record<`${Bucket}_pico`, Value> {
  const entries = buckets.map((bucket) => [`${bucket}_pico`, toValue(bucket)])
  return Object.fromEntries(entries) as Record<`${Bucket}_pico`, Value>
}

/** The count that the tokens of a bucket are part of; null for other units. */
export function parentOf(bucket: Bucket): Plain | null {
  const row = rows[bucket]
  return "part_of" in row ? row.part_of : null
}

export function bucketsHeldFor(part: HeldFor): readonly Bucket[] {
  return buckets.filter((bucket) => rows[bucket].held_for === part)
}

/** The kind whose price a bucket without a price has; null if it must be priced. */
export function fallbackOf(bucket: Bucket): Bucket | Plain | null {
  const row = rows[bucket]
  return "otherwise" in row ? row.otherwise : null
}

export function isBucket(kind: string): kind is Bucket {
  return Object.hasOwn(rows, kind)
}

/** The charged counts that are not tokens: the runs of all tools of the provider together are one count. */
type CountedKind = Bucket | "tool_run"
export const countedKinds: readonly CountedKind[] = [...buckets, "tool_run"]

export type Kind = Plain | CountedKind | "per_call"
export const kinds: readonly Kind[] = ["input", "cached_input", "output", ...countedKinds, "per_call"]

const shown: Readonly<Record<Kind, Pick<KindRow, "unit" | "label" | "title">>> = {
  input: { label: "prompt", title: "PROMPT" },
  cached_input: { label: "cached prompt", title: "CACHED" },
  output: { label: "output", title: "OUTPUT" },
  ...rows,
  tool_run: { unit: "run", label: "tool runs", title: "TOOL RUNS" },
  per_call: { unit: "call", label: "call", title: "CALLS" },
}

export function unitOf(kind: Kind): ChargeUnit {
  return shown[kind].unit ?? "token"
}

/** The unit of the price on a line of a receipt: `1M` tokens, or one of another unit. */
export function priceUnit(kind: string): string {
  const unit = isKind(kind) ? unitOf(kind) : "token"
  return unit === "token" ? "1M" : unit
}

export function titleOf(kind: Kind): string {
  return shown[kind].title
}

/** The label of a receipt's line; for a kind of a newer gateway, its name. */
export function lineLabel({ kind, tool }: { readonly kind: string; readonly tool?: string }): string {
  const label = isKind(kind) ? shown[kind].label : kind
  return tool === undefined ? label : `${label}: ${tool}`
}

function isKind(kind: string): kind is Kind {
  return Object.hasOwn(shown, kind)
}

/** A provider's names of its tools, in the order in which terms and entries have their prices and counts. */
export function toolNames(tools: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.keys(tools).sort()
}

/** The first index of tool runs in an entry's `buckets`, after those of the table, which may grow up to here. */
export const FIRST_RUN = 32

import { recordOf } from "../kinds.ts"
import { PICO_PER_NANO, type Price, parsePrice, printUsd } from "../money.ts"
import { groupInTurns, mapInTurns, sortInTurns } from "../turns.ts"
import {
  type ComparedUsage,
  type ReconciledRow,
  type ReconciledSums,
  STEP_MS,
} from "../wire/reconciliation.ts"
import { type Cause, type ComparedState, causes } from "../wire/reconciliation-words.ts"
import type { Usage } from "../wire/usage.ts"
import type { ExportedUsage, UsageExport } from "./usage-export.ts"

/** The usage that a provider reports beside ours, step by step, and what explains the differences (D98). */

interface Names {
  /** Our name for a model of theirs; it may be the same. */
  modelOf(theirs: string): string
  /** Our name for a key of theirs, if keys are compared. */
  readonly keyOf: ((theirs: string | null) => string) | null
}

type Tokens = Pick<Usage, "prompt_tokens" | "cached_tokens" | "completion_tokens">

interface Pair {
  readonly from_ms: number
  readonly model: string
  readonly key: string | null
  readonly theirs: Theirs | null
  readonly ours: readonly ReconciledSums[]
}

interface Theirs extends Tokens {
  readonly requests: number | null
}

/** Buckets that ended later than this before now may still change. */
const YOUNG_MS = 24 * STEP_MS.hour

/** Compares an export with our sums of the same steps and operations. */
export async function compareUsage(
  exported: UsageExport,
  all: readonly ReconciledSums[],
  names: Names,
  now_ms: number,
): Promise<ComparedUsage> {
  const ours = all
    .filter(({ operation }) => (operation === "embeddings") === exported.has_embeddings)
    .map((sums) => (exported.has_cached ? sums : { ...sums, cached_tokens: 0 }))
  const step_ms = STEP_MS[exported.step]
  const pairs = await pairsOf(exported.usages, ours, names)
  const prices = await pricesOf(ours)
  const at = new Map(
    await mapInTurns(pairs, (pair) => [placeOf(pair.from_ms, pair.model, pair.key), pair] as const),
  )
  const rows = await mapInTurns(pairs, (pair) => {
    const state = !exported.covered.has(pair.from_ms)
      ? "no_data"
      : pair.from_ms + step_ms > now_ms - YOUNG_MS
        ? "too_young"
        : prices.has(pair.model)
          ? "compared"
          : "not_sold"
    const beside = [-step_ms, step_ms].map((away) =>
      at.get(placeOf(pair.from_ms + away, pair.model, pair.key)),
    )
    return compared(pair, state, prices.get(pair.model) ?? null, beside)
  })
  return { ...(await summed(rows)), has_more: exported.has_more }
}

const placeOf = (from_ms: number, model: string, key: string | null) => JSON.stringify([from_ms, model, key])

async function pairsOf(
  usages: readonly ExportedUsage[],
  ours: readonly ReconciledSums[],
  { modelOf, keyOf }: Names,
): Promise<readonly Pair[]> {
  const theirs = await groupInTurns(usages, ({ from_ms, model, key_id }) =>
    placeOf(from_ms, modelOf(model), keyOf === null ? null : keyOf(key_id)),
  )
  const own = await groupInTurns(ours, ({ from, model, upstream_key }) =>
    placeOf(Date.parse(from), model, keyOf === null ? null : (upstream_key ?? "")),
  )
  const places = new Set([...theirs.keys(), ...own.keys()])
  const pairs = await mapInTurns([...places], (place): Pair => {
    const [from_ms, model, key]: [number, string, string | null] = JSON.parse(place)
    return { from_ms, model, key, theirs: total(theirs.get(place)), ours: own.get(place) ?? [] }
  })
  return sortInTurns(pairs, (one, other) => one.from_ms - other.from_ms || (one.model < other.model ? -1 : 1))
}

function total(usages: readonly ExportedUsage[] = []): Theirs | null {
  if (usages.length === 0) return null
  const counted = usages.flatMap(({ requests }) => requests ?? [])
  const requests = counted.reduce((sum, one) => sum + one, 0)
  return { requests: counted.length < usages.length ? null : requests, ...tokensOf(usages) }
}

function tokensOf(all: readonly Tokens[]): Tokens {
  const sum = (kind: keyof Tokens) => all.reduce((whole, tokens) => whole + tokens[kind], 0)
  return {
    prompt_tokens: sum("prompt_tokens"),
    cached_tokens: sum("cached_tokens"),
    completion_tokens: sum("completion_tokens"),
  }
}

type TokenPrices = Pick<Price, "input_pico" | "cached_input_pico" | "output_pico">

/** The highest prices of each model of which there are calls. */
async function pricesOf(ours: readonly ReconciledSums[]): Promise<ReadonlyMap<string, TokenPrices>> {
  const found = new Map<string, TokenPrices>()
  const higher = (one: bigint, text: string) => larger(one, parsePrice(text) ?? 0n)
  await mapInTurns(ours, ({ model, prices, calls }) => {
    if (calls === 0) return
    const known = found.get(model) ?? { input_pico: 0n, cached_input_pico: 0n, output_pico: 0n }
    found.set(model, {
      input_pico: higher(known.input_pico, prices.input),
      cached_input_pico: higher(known.cached_input_pico, prices.cached_input),
      output_pico: higher(known.output_pico, prices.output),
    })
  })
  return found
}

const larger = (one: bigint, other: bigint) => (one > other ? one : other)
const smaller = (one: bigint, other: bigint) => (one < other ? one : other)
const sizeOf = (amount: bigint) => (amount < 0n ? -amount : amount)

function costOf(prices: TokenPrices, { prompt_tokens, cached_tokens, completion_tokens }: Tokens): bigint {
  return (
    prices.input_pico * BigInt(prompt_tokens - cached_tokens) +
    prices.cached_input_pico * BigInt(cached_tokens) +
    prices.output_pico * BigInt(completion_tokens)
  )
}

/** A row, and its amounts in pico-USD if it is compared. */
interface Compared {
  readonly row: ReconciledRow
  readonly amounts: ReturnType<typeof explain> | null
}

const NOTHING: Theirs = { requests: 0, prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0 }

function compared(
  pair: Pair,
  state: ComparedState,
  prices: TokenPrices | null,
  beside: readonly (Pair | undefined)[],
): Compared {
  const own = sumOf(pair.ours)
  // A step that the export covers has no usage of a model that it does not name.
  const theirs = pair.theirs ?? (state === "no_data" ? null : NOTHING)
  const cost = (tokens: Tokens) => (prices === null ? null : printPicoUsd(costOf(prices, tokens)))
  const row = {
    from: new Date(pair.from_ms).toISOString(),
    model: pair.model,
    key: pair.key,
    state,
    theirs: theirs && { ...theirs, cost: cost(theirs) },
    ours: pair.ours.length === 0 ? null : { ...own.tokens, calls: own.calls, cost: cost(own.tokens) },
    difference: null,
    explained: null,
    unexplained: null,
  }
  if (state !== "compared" || prices === null || theirs === null) return { row, amounts: null }
  const boundary = beside.reduce((sum, other) => sum + sumOf(other?.ours ?? []).boundary(prices), 0n)
  const amounts = explain(theirs, own, prices, boundary)
  const { theirs_pico, ours_pico, explained_pico, unexplained_pico } = amounts
  return {
    row: {
      ...row,
      difference: printPicoUsd(theirs_pico - ours_pico),
      explained: printed(explained_pico),
      unexplained: printPicoUsd(unexplained_pico),
    },
    amounts,
  }
}

/** Takes from the difference what each cause can explain at most, in their order. */
function explain(theirs: Theirs, own: Own, prices: TokenPrices, boundary_beside_pico: bigint) {
  const theirs_pico = costOf(prices, theirs)
  const ours_pico = costOf(prices, own.tokens)
  const requests = theirs.requests
  const per_call_pico =
    own.calls > 0 ? ours_pico / BigInt(own.calls) : theirs_pico / BigInt(Math.max(requests ?? 1, 1))
  let rest_pico = theirs_pico - ours_pico
  /** At most this much, with the sign of the rest; a surplus only, if only the provider can have counted more. */
  const take = (most_pico: bigint, only_surplus: boolean) => {
    if (only_surplus && rest_pico < 0n) return 0n
    const taken = smaller(sizeOf(rest_pico), most_pico)
    const signed = rest_pico < 0n ? -taken : taken
    rest_pico -= signed
    return signed
  }
  const attempts = take(per_call_pico * BigInt(own.attempts), true)
  const estimates = take(own.estimated(prices), false)
  const cut = take(own.cut(prices) + per_call_pico * BigInt(own.cut_calls), true)
  const boundary = take(own.boundary(prices) + boundary_beside_pico, false)
  const others = requests === null ? 0 : requests - own.calls - own.attempts - own.cut_calls
  const is_foreign = own.calls + own.attempts + own.cut_calls === 0
  const most_elsewhere =
    is_foreign || others <= 0 ? theirs_pico : (theirs_pico * BigInt(others)) / BigInt(requests ?? 1)
  const elsewhere = is_foreign || others > 0 ? take(most_elsewhere, true) : 0n
  return {
    theirs_pico,
    ours_pico,
    explained_pico: { attempts, estimates, cut, boundary, elsewhere },
    unexplained_pico: rest_pico,
  }
}

type Own = ReturnType<typeof sumOf>

function sumOf(ours: readonly ReconciledSums[]) {
  const sum = (read: (sums: ReconciledSums) => number) => ours.reduce((whole, sums) => whole + read(sums), 0)
  const cost = (doubt: "estimated" | "cut" | "boundary") => (prices: TokenPrices) =>
    costOf(prices, tokensOf(ours.map((sums) => ({ ...sums[doubt], cached_tokens: 0 }))))
  return {
    calls: sum(({ calls }) => calls),
    tokens: tokensOf(ours),
    attempts: sum(({ attempts }) => attempts),
    cut_calls: sum(({ cut }) => cut.calls),
    estimated: cost("estimated"),
    cut: cost("cut"),
    boundary: cost("boundary"),
  }
}

async function summed(compared_rows: readonly Compared[]): Promise<Omit<ComparedUsage, "has_more">> {
  let [theirs_pico, ours_pico, unexplained_pico] = [0n, 0n, 0n]
  const explained_pico = recordOf(causes, () => 0n)
  const rows = await mapInTurns(compared_rows, ({ row, amounts }) => {
    if (amounts === null) return row
    theirs_pico += amounts.theirs_pico
    ours_pico += amounts.ours_pico
    unexplained_pico += sizeOf(amounts.unexplained_pico)
    for (const cause of causes) explained_pico[cause] += amounts.explained_pico[cause]
    return row
  })
  const larger_pico = larger(theirs_pico, ours_pico)
  const unmatched_pico = unexplained_pico + explained_pico.elsewhere
  return {
    rows,
    theirs: printPicoUsd(theirs_pico),
    ours: printPicoUsd(ours_pico),
    difference: printPicoUsd(theirs_pico - ours_pico),
    explained: printed(explained_pico),
    unexplained: printPicoUsd(unexplained_pico),
    unmatched: printPicoUsd(unmatched_pico),
    unmatched_percent: larger_pico === 0n ? 0 : Number((unmatched_pico * 1_000_000n) / larger_pico) / 10_000,
  }
}

function printed(amounts: Readonly<Record<Cause, bigint>>): Record<Cause, string> {
  return recordOf(causes, (cause) => printPicoUsd(amounts[cause]))
}

/** In USD, to whole nano-USD. */
function printPicoUsd(amount_pico: bigint): string {
  return printUsd(amount_pico / PICO_PER_NANO)
}

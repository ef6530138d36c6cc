import { type Config, haveOutput, type Model, type Route } from "../config/config.ts"
import { buckets, fallbackOf, isBucket, parentOf, unitOf } from "../kinds.ts"
import { PICO_PER_NANO, type Price, printPriceOf, type Rate } from "../money.ts"
import type { ListedKind, ListedPrices, PriceEntry, PriceList } from "./price-list.ts"
import { usd } from "./screen.ts"

/** A configured price of a model beside the one of a list. Amounts are decimal strings, as the configuration writes them. */
export interface PriceDifference {
  readonly kind: ListedKind
  /** The service tier whose price it is; null for the model's own (D70). */
  readonly service_tier: string | null
  /** The prompt size from which on they differ (D62). */
  readonly above: number
  /** Null if the configuration has no such price. */
  readonly configured: string | null
  readonly listed: string
}

export interface Comparison extends Pick<PriceEntry, "not_chargeable" | "not_exact"> {
  readonly model: string
  readonly upstream: string
  /** The entry of the list; null if there is none, or if several could be meant. */
  readonly entry: string | null
  readonly candidates: readonly string[]
  readonly differences: readonly PriceDifference[]
  /** Kinds and service tiers that the list lacks; they are neither compared nor dropped. */
  readonly only_configured: readonly string[]
  /** Service tiers that only the list has. Calls that ask for one are refused (D61), so this is no difference. */
  readonly not_configured: readonly string[]
  /** The keys of the model that would agree with the list; null if the list does not tell enough. */
  readonly needed: Needed | null
  readonly same: boolean
}

export type Needed = { readonly free: true } | { readonly price: Readonly<Record<string, unknown>> }

const KINDS = ["input", "cached_input", "output", ...buckets, "per_call"] as const

/** The kinds that can be charged: a model that only makes embeddings has no output (D67). */
function kindsOf({ operations }: Model): readonly ListedKind[] {
  if (haveOutput(operations)) return KINDS
  return KINDS.filter((kind) => kind !== "output" && !(isBucket(kind) && parentOf(kind) === "output"))
}

const isToken = (kind: ListedKind) => unitOf(kind) === "token"

/** Compares every upstream of every model. `mapped` names the entry of a model, where its name alone does not. */
export function comparePrices(
  config: Config,
  list: PriceList,
  mapped: ReadonlyMap<string, string>,
): Comparison[] {
  return config.models.flatMap((model) =>
    model.routes.map((route) => {
      const name = mapped.get(model.name)
      return compared(model, route, name === undefined ? list.find(route) : [list.named(name) ?? []].flat())
    }),
  )
}

/** Several entries are compared with nothing, because none is guessed. */
function compared(model: Model, { upstream }: Route, found: readonly PriceEntry[]): Comparison {
  const [one, ...others] = found
  const entry = one === undefined || others.length > 0 ? NO_ENTRY : one
  const kinds = kindsOf(model)
  const own = ownPrices(model.price)
  const tiers = model.service_tiers.map(({ name }) => name)
  const differences = [
    ...differencesIn(kinds, model, entry.prices, null),
    ...model.service_tiers.flatMap((tier) =>
      differencesIn(kinds, tier, servicePrices(entry, tier.name), tier.name),
    ),
  ]
  const only_configured = [
    ...kinds.filter(
      (kind) => !entry.prices.has(kind) && own.has(kind) && kind !== "input" && kind !== "output",
    ),
    ...tiers.filter((name) => !entry.service_tiers.has(name)),
  ]
  const { name, not_chargeable, not_exact } = entry
  const needed = neededBy(model, kinds, entry)
  return {
    model: model.name,
    upstream: upstream.name,
    entry: name,
    candidates: found.map(({ name }) => name),
    differences,
    only_configured: name === null ? [] : only_configured,
    not_configured: [...entry.service_tiers.keys()].filter((name) => !tiers.includes(name)),
    not_chargeable,
    not_exact,
    needed,
    same: differences.length === 0 && not_exact.length === 0 && needed !== null,
  }
}

type ComparedPrices = Omit<PriceEntry, "name">
const NONE: ListedPrices = new Map()
const NO_ENTRY = { name: null, prices: NONE, service_tiers: new Map(), not_chargeable: [], not_exact: [] }

/** The prices of tokens at a service tier of the list, those that it leaves out too. */
function servicePrices({ prices, service_tiers }: ComparedPrices, name: string): ListedPrices {
  const own = service_tiers.get(name)
  if (own === undefined) return NONE
  return new Map(
    [...prices].filter(([kind]) => isToken(kind)).map(([kind, sizes]) => [kind, own.get(kind) ?? sizes]),
  )
}

function differencesIn(
  kinds: readonly ListedKind[],
  configured: Rate,
  listed: ListedPrices,
  service_tier: string | null,
): PriceDifference[] {
  const own = effectivePrices(kinds, configured)
  const sizes = [0, ...startsOf(own, listed)]
  return kinds.flatMap((kind) => {
    const pairs = sizes.map((above) => [printedAt(own, kind, above), printedAt(listed, kind, above)] as const)
    return pairs.flatMap(([configured, listed], at) => {
      const before = pairs[at - 1]
      const is_new = before?.[0] !== configured || before?.[1] !== listed
      if (listed === null || configured === listed || !is_new) return []
      return [{ kind, service_tier, above: sizes[at] ?? 0, configured, listed }]
    })
  })
}

/** The sizes of the prompt from which on prices are others. */
function startsOf(...prices: readonly ListedPrices[]): number[] {
  const starts = prices.flatMap((one) => [...one.values()].flatMap((sizes) => [...sizes.keys()]))
  return [...new Set(starts)].filter((above) => above > 0).sort((one, other) => one - other)
}

/** As the configuration writes it: USD per 1M tokens, or USD for each call or search. */
function printedAt(prices: ListedPrices, kind: ListedKind, size: number): string | null {
  const starts = [...(prices.get(kind) ?? [])].filter(([above]) => above <= size)
  const [last] = starts.sort(([one], [other]) => other - one)
  return last === undefined ? null : usd(printPriceOf(kind, last[1]))
}

/** The prices by the configuration of each kind, in the form of a list's prices, without those that may not be charged. */
function effectivePrices(kinds: readonly ListedKind[], { price, tiers }: Rate): ListedPrices {
  const rates = [{ above_tokens: 0, price }, ...tiers]
  return new Map(
    kinds.map((kind) => {
      const sizes = rates.flatMap(({ above_tokens, price }): [number, bigint][] => {
        const amount_pico = effective(kind, price)
        return amount_pico === null ? [] : [[above_tokens, amount_pico]]
      })
      return [kind, new Map(sizes)]
    }),
  )
}

/** The price's own entry, in pico-USD. */
function ownPrices(price: Price): ReadonlyMap<ListedKind, bigint> {
  const { input_pico, cached_input_pico, output_pico, per_call_nano, buckets: named = {} } = price
  const own = new Map<ListedKind, bigint>([
    ["input", input_pico],
    ["output", output_pico],
  ])
  if (cached_input_pico !== input_pico) own.set("cached_input", cached_input_pico)
  if (per_call_nano > 0n) own.set("per_call", per_call_nano * PICO_PER_NANO)
  for (const bucket of buckets) {
    const amount_pico = named[bucket]
    if (amount_pico !== undefined) own.set(bucket, amount_pico)
  }
  return own
}

/** The charge of a token of the kind, in pico-USD, by the fallbacks of D60; null if it may not be charged. */
function effective(kind: ListedKind, price: Price): bigint | null {
  const own = ownPrices(price).get(kind)
  if (own !== undefined) return own
  if (kind === "per_call") return 0n
  const fallback = kind === "cached_input" ? "input" : isBucket(kind) ? fallbackOf(kind) : null
  return fallback === null ? null : effective(fallback, price)
}

/** The prices of the list, and what only the configuration names; null if the list lacks the price of the input or of the output. */
function neededBy(model: Model, kinds: readonly ListedKind[], entry: ComparedPrices): Needed | null {
  const { prices } = entry
  if (kinds.some((kind) => (kind === "input" || kind === "output") && !prices.has(kind))) return null
  const own = ownPrices(model.price)
  const named = kinds.filter((kind) => prices.has(kind) || own.has(kind))
  const price = rateFor(named, effectivePrices(named, model), prices)
  if (price.tiers === undefined && Object.values(price).every((amount) => /^[0.]+$/.test(String(amount))))
    return { free: true }
  const tokens = named.filter(isToken)
  const service_tiers = model.service_tiers.map((tier) => {
    const configured = effectivePrices(tokens, tier)
    return [tier.name, rateFor(tokens, configured, servicePrices(entry, tier.name))] as const
  })
  return {
    price: {
      ...price,
      ...(service_tiers.length > 0 && { service_tiers: Object.fromEntries(service_tiers) }),
    },
  }
}

/** The list's price of each kind, else the configured one; for each size of the prompt those of tokens. */
function rateFor(kinds: readonly ListedKind[], configured: ListedPrices, listed: ListedPrices) {
  const at = (named: readonly ListedKind[], above: number) =>
    Object.fromEntries(
      named.flatMap((kind) => {
        const amount = printedAt(listed, kind, above) ?? printedAt(configured, kind, above)
        return amount === null ? [] : [[kind, amount] as const]
      }),
    )
  const starts = startsOf(listed === NONE ? configured : listed)
  const tiers = starts.map((above) => ({ above, ...at(kinds.filter(isToken), above) }))
  return { ...at(kinds, 0), ...(tiers.length > 0 && { tiers }) }
}

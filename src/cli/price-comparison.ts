import { type Config, haveOutput, type Model, type Route } from "../config/config.ts"
import { buckets, fallbackOf, feeBuckets, isBucket, parentOf } from "../kinds.ts"
import { PICO_PER_NANO, type Price, printPriceOf, type Rate } from "../money.ts"
import type { Entry, Kind, ListedPrices, PriceList } from "./price-list.ts"

/** A configured price of a model beside the one of a list. Amounts are decimal strings, as the configuration writes them. */
export interface Difference {
  readonly kind: Kind
  /** The service tier whose price it is; null for the model's own (D70). */
  readonly service_tier: string | null
  /** The prompt size from which on they differ (D62). */
  readonly above: number
  /** Null if the configuration has no such price. */
  readonly configured: string | null
  readonly listed: string
}

/** What a list says of one upstream of a model. */
export interface Comparison {
  readonly model: string
  readonly upstream: string
  /** The entry of the list; null if there is none, or if several could be meant. */
  readonly entry: string | null
  /** The names of the entries that could be meant. */
  readonly candidates: readonly string[]
  readonly differences: readonly Difference[]
  /** Kinds and service tiers that the list lacks; they are neither compared nor dropped. */
  readonly only_configured: readonly string[]
  /** Service tiers that only the list has. Calls that ask for one are refused (D61), so this is no difference. */
  readonly not_configured: readonly string[]
  readonly not_chargeable: Entry["not_chargeable"]
  readonly not_exact: Entry["not_exact"]
  /** The keys of the model that would agree with the list; null if the list does not tell enough. */
  readonly needed: Needed | null
  /** Whether each price of the list is that of the configuration. */
  readonly same: boolean
}

/** What a model of the configuration file says of its price. */
export type Needed = { readonly free: true } | { readonly price: Readonly<Record<string, unknown>> }

const KINDS = ["input", "cached_input", "output", ...buckets, "per_call"] as const
const FEES: readonly Kind[] = [...feeBuckets, "per_call"]

/** What can be charged for: a model that only makes embeddings has no output (D67). */
function kindsOf({ operations }: Model): readonly Kind[] {
  if (haveOutput(operations)) return KINDS
  return KINDS.filter((kind) => kind !== "output" && !(isBucket(kind) && parentOf(kind) === "output"))
}

/** Compares every upstream of every model. `mapped` names the entry of a model, where its name alone does not. */
export function comparePrices(
  config: Config,
  list: PriceList,
  mapped: ReadonlyMap<string, string>,
): Comparison[] {
  return config.models.flatMap((model) =>
    model.routes.map((route) => {
      const name = mapped.get(model.name)
      const found = name === undefined ? list.find(route) : [list.named(name) ?? []].flat()
      const [entry, ...others] = found
      if (entry !== undefined && others.length === 0) return compared(model, route, entry)
      return unmatched(
        model,
        route,
        found.map(({ name }) => name),
      )
    }),
  )
}

function unmatched({ name: model }: Model, { upstream }: Route, candidates: readonly string[]): Comparison {
  return {
    model,
    upstream: upstream.name,
    entry: null,
    candidates,
    differences: [],
    only_configured: [],
    not_configured: [],
    not_chargeable: [],
    not_exact: [],
    needed: null,
    same: false,
  }
}

function compared(model: Model, { upstream }: Route, entry: Entry): Comparison {
  const kinds = kindsOf(model)
  const differences = [
    ...differencesIn(kinds, model, entry.prices, null),
    ...model.service_tiers.flatMap((tier) => {
      const listed = entry.service_tiers.has(tier.name) ? servicePrices(entry, tier.name) : NONE
      return differencesIn(kinds, tier, listed, tier.name)
    }),
  ]
  const configured = model.service_tiers.map(({ name }) => name)
  const needed = neededBy(model, entry)
  const { name, not_chargeable, not_exact } = entry
  return {
    model: model.name,
    upstream: upstream.name,
    entry: name,
    candidates: [name],
    differences,
    only_configured: [
      ...kinds.filter((kind) => !entry.prices.has(kind) && isNamed(kind, model.price)),
      ...configured.filter((name) => !entry.service_tiers.has(name)),
    ],
    not_configured: [...entry.service_tiers.keys()].filter((name) => !configured.includes(name)),
    not_chargeable,
    not_exact,
    needed,
    same: differences.length === 0 && not_exact.length === 0 && needed !== null,
  }
}

const NONE: ListedPrices = new Map()

/** The prices of tokens at a service tier of the list, those that it leaves out too. */
function servicePrices({ prices, service_tiers }: Entry, name: string): ListedPrices {
  const own = service_tiers.get(name) ?? NONE
  const tokens = [...prices].filter(([kind]) => !FEES.includes(kind))
  return new Map(tokens.map(([kind, sizes]) => [kind, own.get(kind) ?? sizes]))
}

function differencesIn(
  kinds: readonly Kind[],
  configured: Rate,
  listed: ListedPrices,
  service_tier: string | null,
): Difference[] {
  const sizes = sizesOf(configured, listed)
  return sizes.flatMap((above, at) =>
    kinds.flatMap((kind) => {
      const found = pairAt(kind, configured, listed, above)
      const before = sizes[at - 1]
      if (found.listed === null || found.configured === found.listed) return []
      if (before !== undefined && Bun.deepEquals(pairAt(kind, configured, listed, before), found)) return []
      return [
        {
          kind,
          service_tier,
          above,
          configured: found.configured === null ? null : printed(kind, found.configured),
          listed: printed(kind, found.listed),
        },
      ]
    }),
  )
}

function pairAt(kind: Kind, configured: Rate, listed: ListedPrices, size: number) {
  return {
    configured: effective(kind, configuredAt(configured, size)),
    listed: listedAt(listed, kind, size),
  }
}

/** Every prompt size at which a price of the configuration or of the list begins. */
function sizesOf({ tiers }: Rate, listed: ListedPrices): number[] {
  const configured = tiers.map(({ above_tokens }) => above_tokens)
  return [...new Set([0, ...configured, ...startsOf(listed)])].sort((one, other) => one - other)
}

/** The sizes of the list's tiers. */
function startsOf(listed: ListedPrices): number[] {
  const starts = [...listed.values()].flatMap((sizes) => [...sizes.keys()])
  return [...new Set(starts)].filter((above) => above > 0).sort((one, other) => one - other)
}

function configuredAt({ price, tiers }: Rate, size: number): Price {
  return tiers.findLast(({ above_tokens }) => above_tokens <= size)?.price ?? price
}

function listedAt(listed: ListedPrices, kind: Kind, size: number): bigint | null {
  const starts = [...(listed.get(kind) ?? [])].filter(([above]) => above <= size)
  const [last] = starts.sort(([one], [other]) => other - one)
  return last?.[1] ?? null
}

/** What a token of the kind is charged, in pico-USD, by the fallbacks of D60; null if nothing may be charged for it. */
function effective(kind: Kind, price: Price): bigint | null {
  switch (kind) {
    case "input":
      return price.input_pico
    case "cached_input":
      return price.cached_input_pico
    case "output":
      return price.output_pico
    case "per_call":
      return price.per_call_nano * PICO_PER_NANO
    default: {
      const fallback = fallbackOf(kind)
      return price.buckets?.[kind] ?? (fallback === null ? null : effective(fallback, price))
    }
  }
}

/** Whether a price says something of its own of a kind that it may leave out. */
function isNamed(kind: Kind, price: Price): boolean {
  switch (kind) {
    case "input":
    case "output":
      return false
    case "cached_input":
      return price.cached_input_pico !== price.input_pico
    case "per_call":
      return price.per_call_nano > 0n
    default:
      return price.buckets?.[kind] !== undefined
  }
}

/** The prices of the list, and what only the configuration names; null if the list lacks the price of the input or of the output. */
function neededBy(model: Model, entry: Entry): Needed | null {
  const kinds = kindsOf(model)
  const is_whole = (["input", "output"] as const).every(
    (kind) => entry.prices.has(kind) || !kinds.includes(kind),
  )
  if (!is_whole) return null
  const named = kinds.filter((kind) => entry.prices.has(kind) || isNamed(kind, model.price))
  const price = pricesAt(named, model, entry.prices, 0)
  const tiers = tiersFor(named, model, entry.prices, startsOf(entry.prices))
  const is_free = tiers === undefined && Object.values(price).every((amount) => /^[0.]+$/.test(amount))
  if (is_free) return { free: true }
  const service_tiers = model.service_tiers.map((tier) => {
    const listed = entry.service_tiers.has(tier.name) ? servicePrices(entry, tier.name) : NONE
    const starts = listed === NONE ? tier.tiers.map(({ above_tokens }) => above_tokens) : startsOf(listed)
    const tokens = named.filter((kind) => !FEES.includes(kind))
    const tiers = tiersFor(tokens, tier, listed, starts)
    return [
      tier.name,
      { ...pricesAt(tokens, tier, listed, 0), ...(tiers !== undefined && { tiers }) },
    ] as const
  })
  return {
    price: {
      ...price,
      ...(tiers !== undefined && { tiers }),
      ...(service_tiers.length > 0 && { service_tiers: Object.fromEntries(service_tiers) }),
    },
  }
}

function tiersFor(named: readonly Kind[], configured: Rate, listed: ListedPrices, starts: readonly number[]) {
  const tokens = named.filter((kind) => !FEES.includes(kind))
  if (starts.length === 0) return undefined
  return starts.map((above) => ({ above, ...pricesAt(tokens, configured, listed, above) }))
}

/** The list's price of each kind, else the configured one. */
function pricesAt(
  named: readonly Kind[],
  configured: Rate,
  listed: ListedPrices,
  above: number,
): Record<string, string> {
  return Object.fromEntries(
    named.flatMap((kind) => {
      const amount_pico = listedAt(listed, kind, above) ?? effective(kind, configuredAt(configured, above))
      return amount_pico === null ? [] : [[kind, printed(kind, amount_pico)] as const]
    }),
  )
}

/** As the configuration writes it: USD per 1M tokens, or USD for each call or search. */
function printed(kind: Kind, amount_pico: bigint): string {
  const [whole, fraction = ""] = printPriceOf(kind, amount_pico).split(".")
  return `${whole}.${fraction.padEnd(2, "0")}`
}

import { type Config, haveOutput, type Model, type Route } from "../config/config.ts"
import { type Bucket, buckets, PICO_PER_NANO, type Price, parentOf, printPico, printPrice } from "../money.ts"
import type { Entry, Kind, PriceList } from "./price-list.ts"

/** A configured price of a model beside the one of a list. Amounts are decimal strings, as the configuration writes them. */
export interface Difference {
  readonly kind: Kind
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
  /** Prices that the list lacks; they are neither compared nor dropped. */
  readonly only_configured: readonly Kind[]
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

/** What can be charged for: a model that only makes embeddings has no output (D67). */
function kindsOf({ operations }: Model): readonly Kind[] {
  if (haveOutput(operations)) return KINDS
  return KINDS.filter((kind) => kind !== "output" && !(isBucket(kind) && parentOf[kind] === "output"))
}

function isBucket(kind: Kind): kind is Bucket {
  return buckets.some((bucket) => bucket === kind)
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
    not_chargeable: [],
    not_exact: [],
    needed: null,
    same: false,
  }
}

function compared(model: Model, { upstream }: Route, entry: Entry): Comparison {
  const sizes = sizesOf(model, entry)
  const differences = sizes.flatMap((above) =>
    kindsOf(model).flatMap((kind) => differenceAt(model, entry, kind, above, sizes) ?? []),
  )
  const needed = neededBy(model, entry)
  const { name, not_chargeable, not_exact } = entry
  return {
    model: model.name,
    upstream: upstream.name,
    entry: name,
    candidates: [name],
    differences,
    only_configured: KINDS.filter((kind) => !entry.prices.has(kind) && isNamed(kind, model.price)),
    not_chargeable,
    not_exact,
    needed,
    same: differences.length === 0 && not_exact.length === 0 && needed !== null,
  }
}

/** Every prompt size at which a price of the configuration or of the list begins. */
function sizesOf(model: Model, entry: Entry): number[] {
  const configured = model.tiers.map(({ above_tokens }) => above_tokens)
  return [...new Set([0, ...configured, ...startsOf(entry)])].sort((one, other) => one - other)
}

/** The sizes of the list's tiers. */
function startsOf({ prices }: Entry): number[] {
  const starts = [...prices.values()].flatMap((sizes) => [...sizes.keys()])
  return [...new Set(starts)].filter((above) => above > 0).sort((one, other) => one - other)
}

/** Null where both agree, where the list has no such price, and where a smaller size says the same. */
function differenceAt(
  model: Model,
  entry: Entry,
  kind: Kind,
  above: number,
  sizes: readonly number[],
): Difference | null {
  const at = (size: number) => ({
    configured: effective(kind, configuredAt(model, size)),
    listed: listedAt(entry, kind, size),
  })
  const { configured, listed } = at(above)
  if (listed === null || configured === listed) return null
  const before = sizes[sizes.indexOf(above) - 1]
  if (before !== undefined && Bun.deepEquals(at(before), { configured, listed })) return null
  return {
    kind,
    above,
    configured: configured === null ? null : printed(kind, configured),
    listed: printed(kind, listed),
  }
}

function configuredAt({ price, tiers }: Model, size: number): Price {
  return tiers.findLast(({ above_tokens }) => above_tokens <= size)?.price ?? price
}

function listedAt({ prices }: Entry, kind: Kind, size: number): bigint | null {
  const starts = [...(prices.get(kind) ?? [])].filter(([above]) => above <= size)
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
    case "cache_write_1h":
      return price.buckets?.cache_write_1h ?? effective("cache_write", price)
    case "cache_write":
    case "reasoning":
      return price.buckets?.[kind] ?? effective(parentOf[kind] ?? "input", price)
    default:
      return price.buckets?.[kind] ?? null
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
  const all = kindsOf(model)
  if (!entry.prices.has("input") || (all.includes("output") && !entry.prices.has("output"))) return null
  const at = (above: number, kinds: readonly Kind[]) =>
    Object.fromEntries(
      kinds.flatMap((kind) => {
        const price = configuredAt(model, above)
        const kept = isNamed(kind, model.price) ? effective(kind, price) : null
        const amount_pico = listedAt(entry, kind, above) ?? kept
        return amount_pico === null ? [] : [[kind, printed(kind, amount_pico)] as const]
      }),
    )
  const plain = at(0, all)
  const tokens = all.filter((kind) => kind !== "per_call" && kind !== "web_search")
  const tiers = startsOf(entry).map((above) => ({ above, ...at(above, tokens) }))
  const is_free = tiers.length === 0 && Object.values(plain).every((amount) => /^[0.]+$/.test(amount))
  if (is_free) return { free: true }
  return { price: { ...plain, ...(tiers.length === 0 ? {} : { tiers }) } }
}

/** As the configuration writes it: USD per 1M tokens, or USD for each call or search. */
function printed(kind: Kind, amount_pico: bigint): string {
  const text = kind === "per_call" || kind === "web_search" ? printPico(amount_pico) : printPrice(amount_pico)
  const [whole, fraction = ""] = text.split(".")
  return `${whole}.${fraction.padEnd(2, "0")}`
}

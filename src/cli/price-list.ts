import { type Static, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import type { Route } from "../config/config.ts"
import { type Kind as AnyKind, kinds, unitOf } from "../kinds.ts"
import { PICO_PER_NANO, parseFee, parseJsonNumber, parsePrice, printPico, printPrice } from "../money.ts"
import { isObject, objectOf } from "../wire/usage.ts"

/** Price lists of others: LiteLLM's `model_prices_and_context_window.json`, and the `data.json` of genai-prices. */

/** The names of a configured price, without those of tools, for which lists have no names. */
export type ListedKind = Exclude<AnyKind, "tool_run">
const listedKinds = kinds.filter((kind): kind is ListedKind => kind !== "tool_run")

/** A price in pico-USD, by the size that the prompt must exceed; 0 for prompts of every size (D62). */
type Sizes = ReadonlyMap<number, bigint>

export type ListedPrices = ReadonlyMap<ListedKind, Sizes>

export interface PriceEntry {
  readonly name: string
  readonly prices: ListedPrices
  /** The prices of service tiers, by their names (D70). What one does not name costs what it costs without it. */
  readonly service_tiers: ReadonlyMap<string, ListedPrices>
  /** A price that Tollgate cannot charge, as the list names it, and why. */
  readonly not_chargeable: readonly { readonly key: string; readonly reason: string }[]
  /** Chargeable keys whose value is no price that Tollgate can hold exactly. */
  readonly not_exact: readonly { readonly key: string; readonly value: string }[]
}

export interface PriceList {
  readonly format: "LiteLLM" | "genai-prices"
  /** The entries that the route's model name can mean: none, the one, or several when the list does not tell. */
  find(route: Route): readonly PriceEntry[]
  named(name: string): PriceEntry | null
}

/** Reads the text of a list; null if it is neither format. Prices that depend on the date are those of `now`. */
export function readPriceList(text: string, now: Date): PriceList | null {
  const list = parsed(text)
  if (isMapping(list)) return Object.values(list).every(isMapping) ? liteLlm(list) : null
  return Value.Check(Providers, list) ? genaiPrices(list, now) : null
}

/** A number as it stands in the text: most prices have no exact double. */
class NumberText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return isObject(value) && !(value instanceof NumberText)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text, (_key, value, { source }) =>
      typeof value === "number" ? new NumberText(source ?? "") : value,
    )
  } catch {
    return null
  }
}

class EntryReader {
  readonly #name: string
  readonly #prices = new Map<ListedKind, Map<number, bigint>>()
  readonly #service_tiers = new Map<string, Map<ListedKind, Map<number, bigint>>>()
  readonly #not_chargeable: { key: string; reason: string }[] = []
  readonly #not_exact: { key: string; value: string }[] = []

  constructor(name: string) {
    this.#name = name
  }

  /** `per`: the power of ten that the value counts in USD: 0, 3 for USD per 1,000, 6 for USD per 1M. */
  price(key: string, kind: ListedKind, per: number, value: unknown, above_tokens = 0, service_tier?: string) {
    if (value === null) return
    const text = value instanceof NumberText ? value.text : null
    const amount_pico = text === null ? null : priceIn(kind, text, per)
    if (amount_pico === null) {
      this.#not_exact.push({ key, value: text ?? JSON.stringify(value) })
      return
    }
    const prices =
      service_tier === undefined ? this.#prices : (this.#service_tiers.get(service_tier) ?? new Map())
    if (service_tier !== undefined) this.#service_tiers.set(service_tier, prices)
    const sizes = prices.get(kind) ?? new Map<number, bigint>()
    const other = sizes.get(above_tokens)
    if (other !== undefined && other !== amount_pico) this.refuse(key, `contradicts another price of ${kind}`)
    else prices.set(kind, sizes.set(above_tokens, amount_pico))
  }

  refuse(key: string, reason: string): void {
    this.#not_chargeable.push({ key, reason })
  }

  entry(): PriceEntry {
    for (const [kind, sizes] of this.#prices) {
      if (sizes.has(0)) continue
      for (const above of sizes.keys())
        this.refuse(`${kind} above ${above} tokens`, "the list has no price for smaller prompts")
      this.#prices.delete(kind)
    }
    for (const [service_tier, prices] of this.#service_tiers) {
      for (const [kind, sizes] of prices) {
        const plain = this.#prices.get(kind)?.get(0)
        if (plain !== undefined) prices.set(kind, new Map([[0, plain], ...sizes]))
        else this.refuse(`${kind} of ${service_tier}`, "the list has no price without the service tier")
      }
    }
    return {
      name: this.#name,
      prices: this.#prices,
      service_tiers: this.#service_tiers,
      not_chargeable: this.#not_chargeable,
      not_exact: this.#not_exact,
    }
  }
}

/** The price in pico-USD; null if the configuration cannot name it: fees are whole nano-USD, and each has a largest value. */
function priceIn(kind: ListedKind, text: string, per: number): bigint | null {
  if (unitOf(kind) !== "token") {
    const nano = parseJsonNumber(text, 9 - per)
    return nano === null ? null : parseFee(printPico(nano * PICO_PER_NANO))
  }
  const pico = parseJsonNumber(text, 12 - per)
  return pico === null ? null : parsePrice(printPrice(pico))
}

/** The names of each kind, in LiteLLM's list and in that of genai-prices. */
const KEYS: Readonly<Record<ListedKind, readonly [litellm: string, genai: string]>> = {
  input: ["input_cost_per_token", "input_mtok"],
  cached_input: ["cache_read_input_token_cost input_cost_per_token_cache_hit", "cache_read_mtok"],
  output: ["output_cost_per_token", "output_mtok"],
  cache_write: ["cache_creation_input_token_cost", "cache_write_mtok cache_write_5m_mtok"],
  cache_write_1h: ["cache_creation_input_token_cost_above_1hr", "cache_write_1h_mtok"],
  reasoning: ["output_cost_per_reasoning_token", "output_reasoning_mtok"],
  audio_input: ["input_cost_per_audio_token", "input_audio_mtok"],
  audio_output: ["output_cost_per_audio_token", "output_audio_mtok"],
  image_input: ["input_cost_per_image_token", "input_image_mtok"],
  image_output: ["output_cost_per_image_token", "output_image_mtok"],
  cached_audio_input: ["cache_read_input_audio_token_cost", "cache_audio_read_mtok"],
  page: ["ocr_cost_per_page", ""],
  web_search: ["", "web_searches_kcount"],
  per_call: ["input_cost_per_request", "requests_kcount"],
}
const kindsBy = (column: 0 | 1): ReadonlyMap<string, ListedKind> =>
  new Map(listedKinds.flatMap((kind) => (KEYS[kind][column].match(/\S+/g) ?? []).map((key) => [key, kind])))
const LITELLM_KINDS = kindsBy(0)
const GENAI_KINDS = kindsBy(1)

/** The possible endings of a key of LiteLLM: the size of the prompt, then the service tier. */
const SUFFIXES = /^(.+?)(?:_above_(\d{1,6})k_tokens)?(?:_(flex|priority))?$/

/** Keys of LiteLLM that hold numbers and no price. What is neither here nor above is named, so a new price cannot be missed. */
const LITELLM_FACTS =
  /^(?:supports_|supported_|max_|litellm_provider$|mode$|source$|_?comment|metadata$|deprecation_date$|[rt]pm$|output_vector_size$|tool_use_system_prompt_tokens$|prompt_cache_min_tokens$)/

function liteLlm(list: Readonly<Record<string, unknown>>): PriceList {
  const named = (name: string) => {
    const entry = Object.hasOwn(list, name) ? list[name] : undefined
    return isMapping(entry) ? liteLlmEntry(name, entry) : null
  }
  return {
    format: "LiteLLM",
    named,
    find({ upstream, model }) {
      const exact = named(`${upstream.name}/${model}`) ?? named(model)
      if (exact !== null) return [exact]
      const names = Object.keys(list).filter((name) => name.endsWith(`/${model}`))
      const own = names.filter((name) => name.startsWith(`${upstream.name}/`))
      return (own.length > 0 ? own : names).flatMap((name) => named(name) ?? [])
    },
  }
}

function liteLlmEntry(name: string, entry: Readonly<Record<string, unknown>>): PriceEntry {
  const reader = new EntryReader(name)
  for (const [key, value] of Object.entries(entry)) {
    const [, base = key, thousands = "0", service_tier] = SUFFIXES.exec(key) ?? []
    const kind = LITELLM_KINDS.get(base)
    const above_tokens = Number(thousands) * 1_000
    if (kind !== undefined && (unitOf(kind) === "token" || service_tier === undefined))
      reader.price(key, kind, 0, value, above_tokens, service_tier)
    else if (key === "search_context_cost_per_query") searchPrice(reader, key, value)
    else if (!LITELLM_FACTS.test(key) && isPrice(key, value)) reader.refuse(key, reasonFor(key))
  }
  return reader.entry()
}

/** LiteLLM prices a search by the size of its context; the configuration has one price, so only equal ones can be charged. */
function searchPrice(reader: EntryReader, key: string, value: unknown): void {
  const [first, ...others] = isObject(value) ? Object.values(value) : []
  const text = first instanceof NumberText ? first.text : null
  const same = others.every((other) => other instanceof NumberText && other.text === text)
  if (text !== null && same) reader.price(key, "web_search", 0, first)
  else reader.refuse(key, "a search has one price, whatever the size of its context")
}

/** True if a value could be a price: it holds a number, or says how something is billed. */
function isPrice(key: string, value: unknown): boolean {
  if (key === "web_search_billing_unit") return value !== "per_query"
  if (value instanceof NumberText) return true
  return typeof value === "object" && value !== null && Object.values(value).some((part) => isPrice("", part))
}

const UNKNOWN_KIND = "Tollgate has no price of this kind"

/** Why a key cannot be charged: by its name, the first that fits. */
const REASONS: readonly (readonly [key: RegExp, reason: string])[] = [
  [/_(?:flex|priority)$/, "service tiers have no price of this kind"],
  [/_batches$/, "Tollgate forwards no batches"],
  [/multiplier|uplift|provider_specific_entry/, "a multiplier of other prices"],
  [/^web_search_billing_unit$/, "searches are charged one by one"],
]

function reasonFor(key: string): string {
  return REASONS.find(([pattern]) => pattern.test(key))?.[1] ?? UNKNOWN_KIND
}

const Providers = Type.Array(
  Type.Object({
    id: Type.String(),
    api_pattern: Type.Optional(Type.Unknown()),
    models: Type.Array(
      Type.Object({
        id: Type.String(),
        match: Type.Optional(Type.Unknown()),
        prices: Type.Optional(Type.Unknown()),
      }),
    ),
  }),
)
type Providers = Static<typeof Providers>

function genaiPrices(providers: Providers, now: Date): PriceList {
  const named = providers.flatMap(({ id, models }) =>
    models.map((model) => ({ ...model, name: `${id}/${model.id}` })),
  )
  const entryOf = (name: string) => {
    const model = named.find((model) => model.name === name)
    return model === undefined ? null : genaiEntry(name, model.prices, now)
  }
  return {
    format: "genai-prices",
    named: entryOf,
    find({ upstream, model: name }) {
      const own = providers.filter(
        ({ id, api_pattern }) => id === upstream.name || isMatch({ regex: api_pattern }, upstream.base_url),
      )
      return (own.length > 0 ? own : providers).flatMap(({ id: provider, models }) => {
        const model = models.find(({ id }) => id === name) ?? models.find(({ match }) => isMatch(match, name))
        return model === undefined ? [] : (entryOf(`${provider}/${model.id}`) ?? [])
      })
    },
  }
}

function isMatch(condition: unknown, text: string): boolean {
  if (!isObject(condition)) return false
  const { equals, starts_with, ends_with, contains, regex, or, and } = condition
  if (typeof equals === "string") return text === equals
  if (typeof starts_with === "string") return text.startsWith(starts_with)
  if (typeof ends_with === "string") return text.endsWith(ends_with)
  if (typeof contains === "string") return text.includes(contains)
  if (typeof regex === "string") return new RegExp(regex).test(text)
  if (Array.isArray(or)) return or.some((part) => isMatch(part, text))
  return Array.isArray(and) && and.every((part) => isMatch(part, text))
}

function genaiEntry(name: string, prices: unknown, now: Date): PriceEntry {
  const reader = new EntryReader(name)
  for (const [key, value] of Object.entries(currentPrices(reader, prices, now))) {
    const kind = GENAI_KINDS.get(key)
    if (kind === undefined) {
      reader.refuse(key, UNKNOWN_KIND)
      continue
    }
    const per = key.endsWith("_mtok") ? 6 : 3
    reader.price(key, kind, per, isMapping(value) ? value.base : value)
    for (const tier of isMapping(value) && Array.isArray(value.tiers) ? value.tiers : []) {
      const { start, price } = objectOf(tier)
      const above = start instanceof NumberText ? parseJsonNumber(start.text, 0) : null
      if (above === null || unitOf(kind) !== "token")
        reader.refuse(key, "only the prices of tokens depend on the size of the prompt")
      else reader.price(`${key} above ${above} tokens`, kind, per, price, Number(above))
    }
  }
  return reader.entry()
}

/** Of several price lists the last that has begun. Prices of hours of the day cannot be charged, and are named. */
function currentPrices(reader: EntryReader, prices: unknown, now: Date): Readonly<Record<string, unknown>> {
  if (!Array.isArray(prices)) return isObject(prices) ? prices : {}
  let current: Readonly<Record<string, unknown>> = {}
  for (const dated of prices) {
    if (!isObject(dated) || !isObject(dated.prices)) continue
    const { start_date, start_time, end_time } = isObject(dated.constraint) ? dated.constraint : {}
    if (typeof start_time === "string")
      reader.refuse(`prices from ${start_time} to ${end_time}`, "Tollgate has no prices by time of day")
    else if (typeof start_date !== "string" || new Date(start_date) <= now) current = dated.prices
    else reader.refuse(`prices from ${start_date}`, "not valid yet")
  }
  return current
}

import { type Static, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { csvRows } from "../wire/csv.ts"
import { type ReportStep, STEP_MS } from "../wire/reconciliation.ts"
import type { Provider } from "../wire/reconciliation-words.ts"
import { parseTime } from "../wire/time.ts"
import type { Usage } from "../wire/usage.ts"

/** Usage exports of providers: the pages of their usage APIs or, of OpenRouter, also its list of requests, as files (D98). */

export interface ExportedUsage extends Pick<Usage, "prompt_tokens" | "cached_tokens" | "completion_tokens"> {
  readonly from_ms: number
  readonly model: string
  /** The provider's id of the key; null if the export is not grouped by key. */
  readonly key_id: string | null
  /** Null if the provider does not count them. */
  readonly requests: number | null
  /** The provider's id, if the export has a row for each request. */
  readonly request_id?: string
}

export interface UsageExport {
  /** True for usage of embeddings, which OpenAI exports by itself. Otherwise it is usage of all other operations. */
  readonly has_embeddings: boolean
  /** False if it does not say which part of the prompts was cached. */
  readonly has_cached: boolean
  readonly step: ReportStep
  readonly from_ms: number
  readonly to_ms: number
  /** The starts of the steps that the export covers as a whole. Others have no data, which is not a usage of 0. */
  readonly covered: ReadonlySet<number>
  readonly usages: readonly ExportedUsage[]
  /** True if the last page says that there are more. */
  readonly has_more: boolean
}

const Count = Type.Integer({ minimum: 0 })
const Text = Type.Union([Type.String(), Type.Null()])

const EMBEDDINGS = "organization.usage.embeddings.result"

const usageOfOpenAi = {
  input_tokens: Count,
  num_model_requests: Count,
  model: Text,
  api_key_id: Type.Optional(Text),
}

const OpenAiPage = Type.Object({
  has_more: Type.Optional(Type.Boolean()),
  data: Type.Array(
    Type.Object({
      start_time: Count,
      end_time: Count,
      results: Type.Array(
        Type.Union([
          Type.Object({ ...usageOfOpenAi, object: Type.Literal(EMBEDDINGS) }),
          Type.Object({
            ...usageOfOpenAi,
            object: Type.Literal("organization.usage.completions.result"),
            output_tokens: Count,
            input_cached_tokens: Type.Optional(Type.Union([Count, Type.Null()])),
            batch: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
          }),
        ]),
      ),
    }),
  ),
})

const AnthropicPage = Type.Object({
  has_more: Type.Optional(Type.Boolean()),
  data: Type.Array(
    Type.Object({
      starting_at: Type.String(),
      ending_at: Type.String(),
      results: Type.Array(
        Type.Object({
          uncached_input_tokens: Count,
          cache_read_input_tokens: Count,
          cache_creation: Type.Object({
            ephemeral_1h_input_tokens: Count,
            ephemeral_5m_input_tokens: Count,
          }),
          output_tokens: Count,
          model: Text,
          api_key_id: Type.Optional(Text),
        }),
      ),
    }),
  ),
})

/** Days of OpenRouter's activity. It has no cached tokens, and its completion tokens contain those of reasoning. */
const OpenRouterDays = Type.Object({
  data: Type.Array(
    Type.Object({
      date: Type.String({ pattern: "^\\d{4}-\\d\\d-\\d\\d$" }),
      model_permaslug: Type.String({ minLength: 1 }),
      requests: Count,
      prompt_tokens: Count,
      completion_tokens: Count,
    }),
  ),
})

const openAiPageForm = TypeCompiler.Compile(OpenAiPage)
const anthropicPageForm = TypeCompiler.Compile(AnthropicPage)
const openRouterDaysForm = TypeCompiler.Compile(OpenRouterDays)

interface ExportedBucket {
  readonly from_ms: number
  readonly to_ms: number
  readonly usages: readonly Omit<ExportedUsage, "from_ms">[]
}

/** Reads one page, an array of pages, or the text of a list of requests. Null if the value is no export of this provider, is not grouped by model, or has embeddings beside other usage. */
export function readUsageExport(provider: Provider, value: unknown): UsageExport | null {
  const pages: readonly unknown[] = Array.isArray(value) ? value : [value]
  const read: readonly ExportedPage[] = pages.flatMap((page) => readers[provider](page) ?? [])
  const buckets = read.flatMap((page) => page.buckets)
  const widths = new Set(buckets.map(({ from_ms, to_ms }) => to_ms - from_ms))
  if (read.length < pages.length || buckets.length === 0) return null
  const kinds = new Set(read.flatMap(({ has_embeddings }) => has_embeddings ?? []))
  if (kinds.size > 1) return null
  const step: ReportStep = [...widths].every((width_ms) => width_ms <= STEP_MS.hour) ? "hour" : "day"
  return {
    ...collected(buckets, step),
    has_embeddings: kinds.has(true),
    has_cached: read.every((page) => page.has_cached !== false),
    has_more: read.at(-1)?.has_more === true,
  }
}

interface ExportedPage {
  /** Null if the page has no usage. */
  readonly has_embeddings: boolean | null
  readonly has_cached?: false
  readonly buckets: readonly ExportedBucket[]
  readonly has_more: boolean
}

const readers: Readonly<Record<Provider, (page: unknown) => ExportedPage | null>> = {
  openai: (page) => (openAiPageForm.Check(page) ? openAiPage(page) : null),
  anthropic: (page) => (anthropicPageForm.Check(page) ? anthropicPage(page) : null),
  openrouter: (page) =>
    typeof page === "string"
      ? openRouterPage(page)
      : openRouterDaysForm.Check(page)
        ? openRouterDays(page)
        : null,
}

function openAiPage({ data, has_more = false }: Static<typeof OpenAiPage>): ExportedPage | null {
  const all = data.flatMap(({ results }) => results)
  const kinds = new Set(all.map(({ object }) => object === EMBEDDINGS))
  if (kinds.size > 1 || all.some(({ model }) => model === null)) return null
  const buckets = data.map(({ start_time, end_time, results }) => ({
    from_ms: start_time * 1_000,
    to_ms: end_time * 1_000,
    usages: results
      .filter((result) => result.object === EMBEDDINGS || result.batch !== true)
      .map((result) => ({
        model: result.model ?? "",
        key_id: result.api_key_id ?? null,
        requests: result.num_model_requests,
        prompt_tokens: result.input_tokens,
        cached_tokens: result.object === EMBEDDINGS ? 0 : (result.input_cached_tokens ?? 0),
        completion_tokens: result.object === EMBEDDINGS ? 0 : result.output_tokens,
      })),
  }))
  return { buckets, has_more, has_embeddings: kinds.size === 0 ? null : kinds.has(true) }
}

function anthropicPage({ data, has_more = false }: Static<typeof AnthropicPage>): ExportedPage | null {
  if (data.some(({ results }) => results.some(({ model }) => model === null))) return null
  const buckets = data.map(({ starting_at, ending_at, results }) => ({
    from_ms: Date.parse(starting_at),
    to_ms: Date.parse(ending_at),
    usages: results.map((result) => {
      const { ephemeral_1h_input_tokens, ephemeral_5m_input_tokens } = result.cache_creation
      const written = ephemeral_1h_input_tokens + ephemeral_5m_input_tokens
      return {
        model: result.model ?? "",
        key_id: result.api_key_id ?? null,
        requests: null,
        prompt_tokens: result.uncached_input_tokens + result.cache_read_input_tokens + written,
        cached_tokens: result.cache_read_input_tokens,
        completion_tokens: result.output_tokens,
      }
    }),
  }))
  return { buckets, has_more, has_embeddings: false }
}

/** A day without any request is not named, so only those that are have data. */
function openRouterDays({ data }: Static<typeof OpenRouterDays>): ExportedPage | null {
  const buckets = [...Map.groupBy(data, ({ date }) => date)].map(([date, items]): ExportedBucket => {
    const from_ms = Date.parse(date)
    const usages = items.map(({ model_permaslug: model, requests, prompt_tokens, completion_tokens }) => ({
      ...{ model, key_id: null, requests, prompt_tokens, cached_tokens: 0, completion_tokens },
    }))
    return { from_ms, to_ms: from_ms + STEP_MS.day, usages }
  })
  if (buckets.some(({ from_ms }) => Number.isNaN(from_ms))) return null
  return { buckets, has_more: false, has_embeddings: null, has_cached: false }
}

const COUNT = /^\d{1,12}$/
/** A time without a zone is in UTC. */
const ROW_TIME = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d+)?)(Z|[+-]\d\d:\d\d)?$/

/** OpenRouter's activity, a row for each request. Hours without one have a usage of 0, except before the first and last. */
function openRouterPage(text: string): ExportedPage | null {
  const rows = csvRows(text)?.map(openRouterUsage)
  if (rows === undefined || rows.length === 0) return null
  const usages = rows.flatMap((usage) => usage ?? [])
  if (usages.length < rows.length) return null
  const times = usages.map(({ from_ms }) => from_ms)
  const first_ms = times.reduce((least, at) => Math.min(least, at))
  const last_ms = times.reduce((most, at) => Math.max(most, at))
  const by_hour = Map.groupBy(usages, ({ from_ms }) => from_ms - (from_ms % STEP_MS.hour))
  const buckets: ExportedBucket[] = []
  for (let at = first_ms - (first_ms % STEP_MS.hour); at <= last_ms; at += STEP_MS.hour) {
    const [from_ms, to_ms] = [Math.max(at, first_ms), Math.min(at + STEP_MS.hour, last_ms)]
    buckets.push({ from_ms, to_ms, usages: by_hour.get(at) ?? [] })
  }
  return { buckets, has_more: false, has_embeddings: null }
}

function openRouterUsage(row: ReadonlyMap<string, string>): ExportedUsage | null {
  const [, day, time, zone = "Z"] = ROW_TIME.exec(row.get("created_at") ?? "") ?? []
  const at = parseTime(`${day}T${time}${zone}`)
  const [prompt = "", cached = "", completion = ""] = [
    "tokens_prompt",
    "tokens_cached",
    "tokens_completion",
  ].map((name) => row.get(name) || "0")
  const [model, request_id] = [row.get("model_permaslug"), row.get("generation_id")]
  if (
    at === null ||
    !model ||
    !request_id ||
    ![prompt, cached, completion].every((count) => COUNT.test(count))
  )
    return null
  const variant = row.get("variant") || "standard"
  return {
    from_ms: at.getTime(),
    model: variant === "standard" ? model : `${model}:${variant}`,
    key_id: row.get("api_key_name") || null,
    requests: 1,
    prompt_tokens: Number(prompt),
    cached_tokens: Math.min(Number(cached), Number(prompt)),
    completion_tokens: Number(completion),
    request_id,
  }
}

/** Adds buckets of minutes to hours. A step is covered if its buckets fill it. */
function collected(buckets: readonly ExportedBucket[], step: ReportStep) {
  const step_ms = STEP_MS[step]
  const startOf = (ms: number) => ms - (ms % step_ms)
  const filled = new Map<number, number>()
  for (const { from_ms, to_ms } of buckets)
    filled.set(startOf(from_ms), (filled.get(startOf(from_ms)) ?? 0) + to_ms - from_ms)
  return {
    step,
    from_ms: Math.min(...filled.keys()),
    to_ms: Math.max(...filled.keys()) + step_ms,
    covered: new Set([...filled].flatMap(([from_ms, width_ms]) => (width_ms === step_ms ? from_ms : []))),
    usages: buckets.flatMap(({ from_ms, usages }) =>
      usages.map((usage) => ({ ...usage, from_ms: startOf(from_ms) })),
    ),
  }
}

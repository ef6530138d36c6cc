import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { isFree } from "../money.ts"
import type { ChatRequest, Message } from "../wire/chat-request.ts"
import { isObject } from "../wire/usage.ts"

/** The service tier of a model's own price. */
export const OWN_TIER = "default"

/**
 * The fields of a request that ask for something billed separately (D60) or at another price (D61), and the field of a
 * prompt that only the provider has; null for none. `service_tier` is the tier that it names; null for none and for
 * `auto` (D70).
 */
export type AskedFor = Readonly<Record<keyof typeof WHAT | "stored_prompt", string | null>>

/** A request that asks for none of these. */
export const NOTHING_ASKED: AskedFor = {
  service_tier: null,
  speed: null,
  inference_geo: null,
  hosted_tool: null,
  audio_input: null,
  audio_output: null,
  web_search: null,
  cache_write_1h: null,
  stored_prompt: null,
}

/** The error for a request that asks for something without a price (D61); null if all of it has one. */
export function unpriced(asked: AskedFor, model: Model): GatewayError | null {
  const error = errorFor(asked, model)
  return error === null || isFree(model.price) ? null : error
}

function errorFor(asked: AskedFor, model: Model): GatewayError | null {
  const first = firstUnpriced(asked, model)
  if (first !== null) return lacking(...first, model.name)
  const { stored_prompt } = asked
  return stored_prompt === null || model.context_tokens !== null ? null : unbounded(stored_prompt, model.name)
}

/** The first field that asks for something without a price, and what that is. */
function firstUnpriced(
  asked: AskedFor,
  { price: { buckets }, service_tiers }: Model,
): readonly [field: string, missing: keyof typeof WHAT] | null {
  const { service_tier } = asked
  if (
    service_tier !== null &&
    service_tier !== OWN_TIER &&
    !service_tiers.some(({ name }) => name === service_tier)
  )
    return ["service_tier", "service_tier"]
  for (const what of NEVER_PRICED) {
    const field = asked[what]
    if (field !== null) return [field, what]
  }
  for (const bucket of APART) {
    const field = asked[bucket]
    if (field !== null && buckets?.[bucket] === undefined) return [field, bucket]
  }
  return null
}

const NEVER_PRICED = ["speed", "inference_geo", "hosted_tool"] as const
const APART = ["audio_input", "audio_output", "web_search", "cache_write_1h"] as const

const WHAT = {
  service_tier: "this service tier",
  speed: "this speed",
  inference_geo: "this inference region",
  hosted_tool: "this tool, which the provider runs",
  audio_input: "audio in a message",
  audio_output: "audio output",
  web_search: "web searches",
  cache_write_1h: "writing to a cache for one hour",
} as const

function lacking(param: string, missing: keyof typeof WHAT, model: string): GatewayError {
  const cure = NEVER_PRICED.some((what) => what === missing)
    ? "Leave it out: Tollgate cannot charge for it."
    : "Leave it out, or ask the operator to set a price."
  return new GatewayError("invalid_request", {
    param,
    message: `${param}: the model ${model} has no price for ${WHAT[missing]}. ${cure}`,
    fields: { missing },
  })
}

/** The error for a prompt of unknown size. */
function unbounded(param: string, model: string): GatewayError {
  return new GatewayError("invalid_request", {
    param,
    message: `${param}: only the provider knows how long this prompt is, and the model ${model} has no context_tokens to hold for it. Leave it out, or ask the operator to set context_tokens.`,
    fields: { missing: "context_tokens" },
  })
}

/** Types of message parts with audio. */
const AUDIO: ReadonlySet<unknown> = new Set(["input_audio", "audio_url", "audio"])

/** What a chat request asks for. */
export function askedFor(request: ChatRequest): AskedFor {
  const tools = toolsIn(request)
  return {
    service_tier: serviceTierOf(request),
    speed: wayOf(request, "speed"),
    inference_geo: wayOf(request, "inference_geo"),
    hosted_tool: tools.some(isHosted) ? "tools" : null,
    audio_input: request.messages.some(isWithAudio) ? "messages" : null,
    audio_output: audioOutput(request),
    web_search: searchField(request) ?? (tools.some(isSearch) ? "tools" : null),
    cache_write_1h: longCache(request, tools),
    stored_prompt: null,
  }
}

function isWithAudio({ content }: Message): boolean {
  return hasAudio(content)
}

/** Values without an extra cost. */
const PLAIN = { speed: "standard", inference_geo: "global" } as const

/** The fields of a request that choose a faster or located computation, which may cost more. */
export function waysOf(request: object): Pick<AskedFor, keyof typeof PLAIN> {
  return { speed: wayOf(request, "speed"), inference_geo: wayOf(request, "inference_geo") }
}

function wayOf(request: object, name: keyof typeof PLAIN): string | null {
  const value = fieldOf(request, name)
  return isSaid(value) && value !== PLAIN[name] ? name : null
}

/** The service tier that a request names; null for none, or `auto`. A tier that is no text has no price either (D70). */
export function serviceTierOf(request: object): string | null {
  const value = fieldOf(request, "service_tier")
  if (value === undefined || value === null || value === "auto") return null
  return typeof value === "string" ? value : ""
}

export function hasAudio(content: unknown): boolean {
  return Array.isArray(content) && content.some((part) => AUDIO.has(fieldOf(part, "type")))
}

export function audioOutput(request: object): string | null {
  const modalities = fieldOf(request, "modalities")
  if (Array.isArray(modalities) && modalities.includes("audio")) return "modalities"
  return isSaid(fieldOf(request, "audio")) ? "audio" : null
}

/**
 * The field that asks for a cache of one hour (D61): in the request itself, a message, a part of a message, or a tool.
 */
function longCache(request: ChatRequest, tools: readonly unknown[]): string | null {
  if (asksForHour(request)) return "cache_control"
  if (request.messages.some(isKeptForHour)) return "messages"
  return tools.some(isToolForHour) ? "tools" : null
}

function isKeptForHour(message: Message): boolean {
  return asksForHour(message) || (Array.isArray(message.content) && message.content.some(asksForHour))
}

function isToolForHour(tool: unknown): boolean {
  return asksForHour(tool) || asksForHour(fieldOf(tool, "function"))
}

/**
 * The field of a request in which a cache of one hour is asked for, however deep: a request is at most 64 levels deep (D18).
 * Null for none.
 */
export function longCacheIn(request: object): string | null {
  if (asksForHour(request)) return "cache_control"
  return Object.entries(request).find(([, value]) => asksWithin(value))?.[0] ?? null
}

/** Fields with the words of a model or a client's tool, which ask for nothing. */
const SAID: ReadonlySet<string> = new Set(["input_schema", "parameters", "arguments"])

function asksWithin(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(asksWithin)
  if (!isObject(value)) return false
  if (asksForHour(value)) return true
  const is_call = value.type === "tool_use"
  return Object.entries(value).some(
    ([name, part]) => !SAID.has(name) && !(is_call && name === "input") && asksWithin(part),
  )
}

function asksForHour(value: unknown): boolean {
  return fieldOf(fieldOf(value, "cache_control"), "ttl") === "1h"
}

/** Fields that ask for a search by being there. */
const SEARCHES = ["web_search_options", "enable_search", "web_search"] as const

const NO_TOOLS: readonly unknown[] = []

function toolsIn(request: ChatRequest): readonly unknown[] {
  const tools = fieldOf(request, "tools")
  return Array.isArray(tools) ? tools : NO_TOOLS
}

const CLIENT_TYPES: ReadonlySet<unknown> = new Set(["function", "custom"])
/** The fields of a client's tool without a type. */
const CLIENT_FIELDS = ["function", "function_declarations", "functionDeclarations"] as const

/** A tool that the client does not run, other than a search: the provider may charge for it. */
function isHosted(tool: unknown): boolean {
  if (!isObject(tool) || isSearch(tool)) return false
  const { type = null } = tool
  return type === null ? !CLIENT_FIELDS.some((name) => name in tool) : !CLIENT_TYPES.has(type)
}

/** The field that asks for a search; tools are separate. */
export function searchField(request: object): string | null {
  for (const name of SEARCHES) if (isSaid(fieldOf(request, name))) return name
  const parameters = fieldOf(request, "search_parameters")
  if (isSaid(parameters) && fieldOf(parameters, "mode") !== "off") return "search_parameters"
  const plugins = fieldOf(request, "plugins")
  if (Array.isArray(plugins) && plugins.some((plugin) => fieldOf(plugin, "id") === "web")) return "plugins"
  return null
}

const SEARCH = /search/i

/** A search that the provider runs: by the type of the tool, or by its only name (`google_search`). */
function isSearch(tool: unknown): boolean {
  if (typeof tool !== "object" || tool === null) return false
  const type = fieldOf(tool, "type")
  if (type === "function" || type === "custom") return false
  return typeof type === "string" ? SEARCH.test(type) : Object.keys(tool).some((name) => SEARCH.test(name))
}

function isSaid(value: unknown): boolean {
  return value !== undefined && value !== null && value !== false
}

export function fieldOf(value: unknown, name: string): unknown {
  return isObject(value) ? value[name] : undefined
}

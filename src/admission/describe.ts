import { recordOf } from "../kinds.ts"
import { type OperationName, operationNames } from "../wire/call.ts"
import { invalidField } from "../wire/fault.ts"
import {
  BETAS,
  type Means,
  MODALITIES,
  OWN_TIER,
  OWN_TIERS,
  PARTS,
  PLUGINS,
  TOOLS,
  TOOLS_TOKENS,
  TTLS,
} from "../wire/fields.ts"
import type { FieldTexts } from "../wire/json.ts"
import {
  type FieldMeaning,
  fieldsOfScope,
  isOff,
  type KnownFields,
  knownFields,
  rowsByName,
} from "../wire/known-fields.ts"
import { type MediaKind, mediaIn, PICTURE_ELSEWHERE } from "../wire/media.ts"
import { countedTokens } from "../wire/requests.ts"
import { isObject, isWhole, type JsonObject } from "../wire/usage.ts"
import { type Described, Description } from "./described.ts"

/**
 * Describes a request by its fields (D88). Throws `invalid_request` for a known name in another spelling (D18), and for another
 * model or provider (D19). `headers` are those that are forwarded: betas may change a price. `set` are the paths of fields that
 * the operator has set: they may choose a provider.
 */
export function describe(
  operation: OperationName,
  texts: FieldTexts,
  headers: Readonly<Record<string, string>> = {},
  set: readonly string[] = [],
): Described {
  const tops = set.length === 0 ? NO_NAMES : new Set(set.map((path) => path.split(".")[0]))
  const walk = new Walk(operation, tops)
  walk.request(texts)
  for (const name in headers) if (name.endsWith("-beta")) walk.betas(headers[name], name)
  const { found } = walk
  if (found.media_size_field !== null && found.media.includes(PICTURE_ELSEWHERE))
    found.enable("larger_pictures", found.media_size_field)
  return found
}

const NO_NAMES: ReadonlySet<string | undefined> = new Set()
const KNOWN = recordOf(operationNames, (operation) => knownFields("all", operation))
const [PART, SOURCE, TOOL] = [fieldsOfScope("part"), fieldsOfScope("source"), fieldsOfScope("tool")]
const PART_TYPES = rowsByName(PARTS)

/** Meanings of fields at the top whose bytes are a part of the prompt. Unknown fields count too. */
const COUNTED: ReadonlySet<Means> = new Set([
  "text",
  "opaque",
  "parts",
  "prediction",
  "tools",
  "plugins",
  "object",
])
/** Objects at the top that are not a part of the prompt. */
const OPTIONS: ReadonlySet<string> = new Set(["usage", "stream_options"])
/** The meanings that only fields at the top of a request may have. */
const ONLY_TOP: ReadonlySet<Means> = new Set([
  "gateway",
  "limit",
  "choices",
  "rounds",
  "parts",
  "prediction",
  "embedded",
  "route",
])

const MEDIA_KINDS: ReadonlyMap<string, MediaKind> = new Map([
  ["image", "image"],
  ["audio", "audio"],
  ["file", "file"],
])
/** Unknown fields and types of parts that refer to a medium. */
const NAMING = /_(?:url|uri|file)$/
const NAMING_TYPE = /_(?:url|file|id)$/
const ADDRESS = /^\s*[a-z][a-z0-9+.-]*:/i
/** Maximum length of an id; a longer text without a scheme is neither an address nor an id. */
const MAX_ID_CHARACTERS = 256

/** The handler of each meaning of a field. `kind`: the kind of the part around it. */
type FieldHandler = (walk: Walk, value: unknown, argument: string, kind: MediaKind | null) => void

const HANDLERS: Readonly<Record<Means, FieldHandler | null>> = {
  none: null,
  text: null,
  opaque: null,
  gateway: null,
  uncounted: null,
  parts: (walk, value) => walk.parts(value, walk.found.keys.length === 1 && walk.found.top === "input"),
  prediction: (walk, value) => walk.parts(value, false),
  embedded: (walk, value) => walk.embedded(value),
  tools: (walk, value) => walk.tools(value),
  plugins: (walk, value) => walk.plugins(value),
  object: (walk, value, scope) => walk.object(scope, value),
  media: (walk, value, own_kind, kind) => walk.medium(value, MEDIA_KINDS.get(own_kind) ?? kind ?? "file"),
  source: (walk, value, _, kind) => {
    if (isObject(value)) walk.medium(value, kind ?? "file")
    else walk.address(value, kind)
  },
  data: (walk, value, _, kind) => {
    if (typeof value !== "string") walk.unknown(value)
    else walk.data(value, kind, kind !== null)
  },
  address: (walk, value, _, kind) => walk.address(value, kind),
  media_size: ({ found }) => {
    found.media_size_field ??= found.path
  },
  hidden: ({ found }) => found.enable("hidden", found.path),
  provider_work: ({ found }) => found.enable("provider_work", found.path),
  refused: ({ found }) => found.enable("refused", found.path),
  price: ({ found }, _, price) => found.enable(price),
  tier: ({ found }, value) => {
    found.service_tier = OWN_TIERS.has(value) ? OWN_TIER : typeof value === "string" ? value : ""
    if (found.service_tier !== OWN_TIER) found.enable("service_tier")
  },
  modalities: (walk, value) => walk.each(value, MODALITIES, "modality"),
  ttl: (walk, value) => walk.each(value, TTLS, "cache_ttl"),
  limit: ({ found }, value) => {
    // A limit of 0 asks for no output (D64); `max_tokens` is 0 without a limit.
    if (typeof value === "number") found.max_tokens = Math.max(found.max_tokens, value, 1)
  },
  other_limit: ({ found }, value) => {
    found.other_limit = Math.max(found.other_limit, tokensOf(value))
  },
  thinking: ({ found }, value) => {
    found.uses_reasoning = true
    // Within another field the server may ignore it, or read it instead of the one at the top.
    if (found.keys.length > 1) found.other_limit = Number.POSITIVE_INFINITY
    else found.thinking_tokens = Math.min(found.thinking_tokens ?? Number.POSITIVE_INFINITY, tokensOf(value))
  },
  choices: ({ found }, value) => {
    if (typeof value === "number") found.choices = value
  },
  rounds: ({ found }, value) => {
    if (isWhole(value)) found.max_calls = Math.min(found.max_calls, value)
  },
  reasoning: ({ found }) => {
    found.uses_reasoning = true
  },
  betas: (walk, value) => walk.betas(value, walk.found.path),
  route: ({ found, set }, _, reason) => {
    if (!set.has(found.top)) throw invalidField(found.path, `null, because ${reason}`)
  },
}

/** One walk over a request. A request is at most 64 levels deep (D18). */
class Walk {
  readonly found = new Description()
  /** Names at the top that the operator has set. */
  readonly set: ReadonlySet<string | undefined>
  readonly #operation: OperationName

  constructor(operation: OperationName, set: ReadonlySet<string | undefined>) {
    this.#operation = operation
    this.set = set
  }

  request(texts: FieldTexts): void {
    const known = KNOWN[this.#operation]
    const { found } = this
    for (let index = 0; index < texts.names.length; index++) {
      const name = texts.names[index] ?? ""
      found.keys[0] = name
      const meaning = found.meaning(known, name)
      const value = texts.valueAt(index)
      const is_tokens = meaning?.means === "embedded" && countedTokens(value) !== null
      found.is_counted = isCounted(meaning) && !is_tokens
      const bytes = found.is_counted ? Buffer.byteLength(texts.at(index)) : 0
      found.bytes += bytes
      if (meaning?.argument === "switch" && value === false) found.disables_thinking = true
      if (meaning?.means === "prediction" && !isOff(meaning, value)) found.predicted_bytes = bytes
      this.#take(meaning, value, null)
    }
  }

  /** Beta names, in a list or separated by commas. */
  betas(value: unknown, field: string): void {
    const texts = (Array.isArray(value) ? value : [value]).filter((one) => typeof one === "string")
    const names = texts.flatMap((text) => text.split(",")).map((name) => name.trim())
    for (const [start, switch_name] of BETAS) {
      if (names.some((name) => name.startsWith(start))) this.found.enable(switch_name, field)
    }
  }

  #take(meaning: FieldMeaning | undefined, value: unknown, kind: MediaKind | null): void {
    if (meaning === undefined) this.unknown(value)
    else {
      const handler = HANDLERS[meaning.means]
      if (handler !== null && !isOff(meaning, value)) handler(this, value, meaning.argument, kind)
    }
  }

  /** Walks the fields of an object. An unknown field of a part may refer to a medium. */
  #fields(object: JsonObject, known: KnownFields, kind: MediaKind | null = null): void {
    const { keys } = this.found
    for (const name in object) {
      keys.push(name)
      const meaning = this.found.meaning(known, name)
      if (meaning === undefined && known === PART && NAMING.test(name))
        this.medium(object[name], kind ?? "file")
      else this.#take(meaning, object[name], kind)
      keys.pop()
    }
  }

  #elements(list: readonly unknown[], take: (value: unknown) => void): void {
    const { keys } = this.found
    for (let at = 0; at < list.length; at++) {
      keys.push(String(at))
      take(list[at])
      keys.pop()
    }
  }

  /** Walks an object, or each object in a list. A nested request may not have the gateway's own fields. */
  object(scope: string, value: unknown): void {
    if (Array.isArray(value)) this.#elements(value, (one) => this.object(scope, one))
    if (!isObject(value)) return
    if (scope === "all") this.#within(value)
    else this.#fields(value, fieldsOfScope(scope))
  }

  #within(request: JsonObject): void {
    const known = KNOWN[this.#operation]
    for (const name in request) {
      const meaning = known.meanings.get(name)
      if (meaning !== undefined && (ONLY_TOP.has(meaning.means) || OPTIONS.has(meaning.argument)))
        throw invalidField(
          `${this.found.path}.${name}`,
          "no such field here: the gateway reads it at the top",
        )
    }
    this.#fields(request, known)
  }

  /** Sets the table's switch for each value, or `otherwise` for an unknown value. */
  each(values: unknown, known: Readonly<Record<string, string>>, otherwise: string): void {
    for (const value of Array.isArray(values) ? values : [values]) {
      const switch_name = typeof value === "string" && Object.hasOwn(known, value) ? known[value] : otherwise
      if (switch_name) this.found.enable(switch_name)
    }
  }

  /** Measures media in texts for the estimate. For the hold such texts count as text. */
  embedded(value: unknown): void {
    this.found.tokens += countedTokens(value) ?? 0
    for (const one of Array.isArray(value) ? value : [value]) {
      const found = typeof one === "string" ? mediaIn(one, null, false) : null
      if (found !== null) this.found.embedded.push(found)
    }
  }

  parts(value: unknown, is_input: boolean): void {
    if (isObject(value)) this.#part(value, is_input)
    else if (Array.isArray(value)) this.#elements(value, (one) => this.parts(one, is_input))
  }

  #part(part: JsonObject, is_item: boolean): void {
    const { found } = this
    const type = typeof part.type === "string" ? part.type : ""
    const [says, fields = ""] = PART_TYPES.get(type) ?? [NAMING_TYPE.test(type) ? "file" : ""]
    if (says === "opaque") return
    if (says === "hidden" || says === "provider_work") found.enable(says, found.path)
    if (says === "audio") found.enable("audio_input")
    if ((says === "kept" && isKept(part, fields)) || (is_item && isBareReference(part)))
      found.enable("hidden", found.path)
    const kind = MEDIA_KINDS.get(says) ?? null
    const was_text = found.is_text
    found.is_text = says === "text"
    this.#fields(part, PART, kind)
    found.is_text = was_text
  }

  /** Adds a medium: a text, or an object with its data or its address. */
  medium(value: unknown, kind: MediaKind): void {
    const { found } = this
    if (kind === "audio") found.enable("audio_input")
    if (typeof value === "string") this.address(value, kind)
    else if (Array.isArray(value)) this.#elements(value, (one) => this.medium(one, kind))
    else if (isObject(value)) {
      const was_text = found.is_text
      found.is_text ||= value.type === "text"
      this.#fields(value, SOURCE, kind)
      found.is_text = was_text
    }
  }

  /** Adds data, or a reference to it. Without a kind it is no medium. */
  address(value: unknown, kind: MediaKind | null): void {
    if (kind === null || typeof value !== "string" || value === "") this.unknown(value)
    else if (this.data(value, kind, value.length > MAX_ID_CHARACTERS && !ADDRESS.test(value))) return
    else if (kind === "image") this.found.media.push(PICTURE_ELSEWHERE)
    else this.found.enable("hidden", this.found.path)
  }

  /** Adds data. Returns true if it is a medium. */
  data(value: string, kind: MediaKind | null, is_data: boolean): boolean {
    const found = mediaIn(value, kind, is_data && !this.found.is_text)
    if (found !== null) this.found.add(found)
    return found !== null
  }

  /** Finds media in unknown values. */
  unknown(value: unknown): void {
    if (typeof value === "string") this.data(value, null, false)
    else if (Array.isArray(value)) for (const one of value) this.unknown(one)
    else if (isObject(value)) for (const name in value) this.unknown(value[name])
  }

  tools(value: unknown): void {
    if (Array.isArray(value)) this.#elements(value, (tool) => this.#tool(tool))
    else if (isObject(value)) this.#tool(value)
  }

  #tool(tool: unknown): void {
    const { found } = this
    const field = this.#operation === "chat" ? found.top : found.path
    const uses = isObject(tool) && isWhole(tool.max_uses) ? tool.max_uses : Number.POSITIVE_INFINITY
    found.tool_tokens ||= TOOLS_TOKENS
    for (const [who, , tokens = 0] of rowsOf(tool, this.#operation)) {
      found.tool_tokens += tokens
      if (who !== "client") found.enable(who, field, uses)
    }
    if (isObject(tool)) this.#fields(tool, TOOL)
  }

  plugins(value: unknown): void {
    for (const plugin of Array.isArray(value) ? value : [value]) {
      this.each([isObject(plugin) ? plugin.id : plugin], PLUGINS, "plugin")
      if (isObject(plugin)) this.#fields(plugin, fieldsOfScope("plugin"))
    }
  }
}

function isCounted(meaning: FieldMeaning | undefined): boolean {
  if (meaning === undefined || meaning.means === "embedded") return true
  return COUNTED.has(meaning.means) && !OPTIONS.has(meaning.argument)
}

/** A number of tokens; infinite for an invalid one. */
function tokensOf(value: unknown): number {
  return typeof value === "number" && value > 0 ? Math.ceil(value) : Number.POSITIVE_INFINITY
}

/** True if a part is only the id of something that the provider stores. */
function isKept(part: JsonObject, fields: string): boolean {
  return typeof part.id === "string" && fields.split(" ").every((field) => !part[field])
}

/** An item without a type and a role is a reference, if it has an id. */
function isBareReference({ type, role, id }: JsonObject): boolean {
  return (type ?? null) === null && role === undefined && typeof id === "string"
}

const TYPES = rowsByName(TOOLS)
type ToolRow = readonly [who: string, client_if?: string, tokens?: number]
const CLIENT: ToolRow = ["client"]
const UNKNOWN: ToolRow = ["hosted_tool"]
/** The version date at the end of a tool's type. */
const DATE = /_(?:\d{8}|\d{4}_\d{2}_\d{2})$/

/** The rows of a tool, by its type and names, because some providers take a client's `google_search` for a search. */
export function rowsOf(tool: unknown, operation: OperationName): readonly ToolRow[] {
  if (!isObject(tool)) return [UNKNOWN]
  const named = Object.keys(tool).flatMap((name) => {
    const row = (tool[name] ?? false) === false ? undefined : TYPES.get(name)
    return row === undefined ? [] : [row]
  })
  const hosted = named.filter(([who]) => who !== "client")
  const { type = null } = tool
  if (typeof type === "string") return [...new Set([typedRow(tool, type), ...hosted])]
  if (type !== null) return [UNKNOWN]
  if (operation === "messages" || "function" in tool || typeof tool.name === "string")
    return [CLIENT, ...hosted]
  return named.length === 0 ? [UNKNOWN] : named
}

function typedRow(tool: JsonObject, type: string): ToolRow {
  const row = TYPES.get(type) ?? TYPES.get(type.replace(DATE, "")) ?? UNKNOWN
  const [field = "", client] = (row[1] ?? "").split("=")
  const at = tool[field]
  return client !== undefined && (isObject(at) ? at.type : at) === client ? CLIENT : row
}

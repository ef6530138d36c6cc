import type { Dialect } from "./dialects.ts"
import { dataUrl, flac, gif, jpeg, mp3, pdf, png, wav, webp } from "./files.ts"
import type { Plan } from "./plan.ts"
import type { PriceList } from "./price-list.ts"
import { textOf } from "./texts.ts"

/** The request of a random call, as a client of each family writes it. */

export type Body = Readonly<Record<string, unknown>>

interface MediaFile {
  readonly kind: "image" | "audio" | "file"
  readonly format: string
  readonly url: string
}

const file = (kind: MediaFile["kind"], type: string, bytes: Buffer): MediaFile => ({
  kind,
  format: type.split("/")[1] ?? "",
  url: dataUrl(type, bytes),
})

const FILES: readonly MediaFile[] = [
  file("image", "image/png", png(64, 64)),
  file("image", "image/png", png(6_000, 6_000)),
  file("image", "image/jpeg", jpeg(4_032, 3_024, 9_000)),
  file("image", "image/gif", gif(320, 200)),
  file("image", "image/webp", webp(2_048, 1_024)),
  file("audio", "audio/wav", wav(2.5)),
  file("audio", "audio/mp3", mp3(20)),
  file("audio", "audio/flac", flac(3_600)),
  file("file", "application/pdf", pdf(3, "A small page.")),
  file("file", "application/pdf", pdf(600, "A page that is like all other pages. ".repeat(20), true)),
  /** A document that is called a picture. */
  { ...file("file", "application/pdf", pdf(600, "Hidden pages.", true)), kind: "image" },
]

/** What has no price may not be asked for. */
function filesOf({ media }: Plan, { own }: PriceList): readonly MediaFile[] {
  const files = media.map((at) => FILES[at % FILES.length] as MediaFile)
  return own.audio_input === undefined ? files.filter(({ kind }) => kind !== "audio") : files
}

export function requestOf(plan: Plan, dialect: Dialect, list: PriceList, model: string): Body {
  const common = { model, ...(plan.stream && dialect.stream !== null && { stream: true }) }
  const tier = tierAsked(plan, dialect, list)
  const tiered = tier === null ? common : { ...common, service_tier: tier }
  switch (dialect.operation) {
    case "chat":
      return { ...tiered, ...chatRequest(plan, dialect, list) }
    case "responses":
      return { ...tiered, ...responsesRequest(plan, dialect, list) }
    case "messages":
      return { ...common, ...messagesRequest(plan, dialect, list) }
    case "embeddings":
      return {
        model,
        input: plan.prompt.map(({ kind, at, length }) => textOf(kind, at, length)).concat("end"),
      }
  }
}

function tierAsked({ tier }: Plan, { tells }: Dialect, { served }: PriceList): string | null {
  if (!tells.has("service_tier") || tier === 0) return null
  return ["default", ...Object.keys(served)][tier - 1] ?? null
}

/** Whether the call asks for searches of the provider, which its usage then counts. */
function searches({ searches }: Plan, { tells }: Dialect, { own }: PriceList): boolean {
  return searches > 0 && tells.has("web_search") && own.web_search !== undefined
}

function reasoning({ asks_reasoning }: Plan): object {
  return asks_reasoning ? { reasoning_effort: "high" } : {}
}

const SCHEMA = { type: "object", properties: { city: { type: "string" }, days: { type: "integer" } } }
const functionAt = (at: number) => ({
  name: `weather_${at}`,
  description: "Weather of a city",
  parameters: SCHEMA,
})
const functions = ({ tools }: Plan) => Array.from({ length: tools }, (_, at) => functionAt(at))

const passages = ({ prompt }: Plan) => prompt.map(({ kind, at, length }) => textOf(kind, at, length))

function chatRequest(plan: Plan, dialect: Dialect, list: PriceList): object {
  const files = filesOf(plan, list)
  const texts = ["Go on.", ...passages(plan)]
  const content =
    files.length === 0
      ? texts.join("\n")
      : [...texts.map((text) => ({ type: "text", text })), ...files.map(chatPart)]
  return {
    messages: [
      ...(plan.system ? [{ role: "system", content: "Answer in one sentence." }] : []),
      { role: "user", content },
    ],
    ...(plan.tools > 0 && { tools: functions(plan).map((one) => ({ type: "function", function: one })) }),
    ...(plan.max_tokens > 0 && { max_tokens: plan.max_tokens }),
    ...(plan.choices > 1 && { n: plan.choices }),
    ...(searches(plan, dialect, list) && { web_search_options: {} }),
    ...(dialect.tells.has("image_output") &&
      list.own.image_output !== undefined &&
      plan.pictures > 0 && { modalities: ["text", "image"] }),
    ...(dialect.tells.has("audio_output") &&
      list.own.audio_output !== undefined &&
      plan.speech > 0 && { modalities: ["text", "audio"], audio: { voice: "ash", format: "mp3" } }),
    ...reasoning(plan),
  }
}

function chatPart({ kind, format, url }: MediaFile): object {
  const [, data = ""] = url.split(",")
  switch (kind) {
    case "image":
      return { type: "image_url", image_url: { url } }
    case "audio":
      return { type: "input_audio", input_audio: { data, format } }
    case "file":
      return { type: "file", file: { filename: "a.pdf", file_data: url } }
  }
}

function responsesRequest(plan: Plan, dialect: Dialect, list: PriceList): object {
  const content = [
    { type: "input_text", text: "Go on." },
    ...passages(plan).map((text) => ({ type: "input_text", text })),
    ...filesOf(plan, list)
      .filter(({ kind }) => kind !== "audio")
      .map(({ kind, url }) =>
        kind === "image"
          ? { type: "input_image", image_url: url }
          : { type: "input_file", filename: "a.pdf", file_data: url },
      ),
  ]
  const tools: object[] = functions(plan).map((one) => ({ type: "function", ...one }))
  if (searches(plan, dialect, list)) tools.push({ type: "web_search" })
  return {
    input: [{ type: "message", role: "user", content }],
    ...(plan.system && { instructions: "Answer in one sentence." }),
    ...(tools.length > 0 && { tools }),
    ...(plan.max_tokens > 0 && { max_output_tokens: plan.max_tokens }),
    ...(plan.asks_reasoning && { reasoning: { effort: "high" } }),
  }
}

function messagesRequest(plan: Plan, dialect: Dialect, list: PriceList): object {
  const ttl = list.own.cache_write_1h !== undefined && plan.for_an_hour > 0 ? { ttl: "1h" } : {}
  const content = [
    {
      type: "text",
      text: "Go on.",
      ...(plan.written > 0 && { cache_control: { type: "ephemeral", ...ttl } }),
    },
    ...passages(plan).map((text) => ({ type: "text", text })),
    ...filesOf(plan, list)
      .filter(({ kind }) => kind !== "audio")
      .map(messagesPart),
  ]
  const tools: object[] = functions(plan).map(({ parameters, ...one }) => ({
    ...one,
    input_schema: parameters,
  }))
  if (searches(plan, dialect, list))
    tools.push({ type: "web_search_20250305", name: "web_search", max_uses: 3 })
  return {
    max_tokens: Math.max(1, plan.max_tokens),
    messages: [{ role: "user", content }],
    ...(plan.system && { system: "Answer in one sentence." }),
    ...(tools.length > 0 && { tools }),
    ...(plan.asks_reasoning && { thinking: { type: "enabled", budget_tokens: 1_024 } }),
  }
}

function messagesPart({ kind, url }: MediaFile): object {
  const [head = "", data = ""] = url.split(",")
  const media_type = head.slice("data:".length, head.indexOf(";"))
  return { type: kind === "image" ? "image" : "document", source: { type: "base64", media_type, data } }
}

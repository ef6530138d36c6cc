import { tokensOf, weightOf } from "./counting.ts"
import type { Dialect } from "./dialects.ts"
import { MAX_OUTPUT_TOKENS, MAX_ROUNDS, MAX_SEARCHES } from "./models.ts"
import type { Plan } from "./plan.ts"
import { NO_WORK, outputOf, type Work } from "./price-list.ts"
import type { Body } from "./requests.ts"
import { textOf } from "./texts.ts"

/**
 * A provider that is honest: it counts what it received and what it generates, and bills for exactly that. It reads the parsed
 * request and nothing of the gateway.
 */

/** What is generated at once. */
export interface Piece {
  readonly choice: number
  readonly kind: "reasoning" | "text" | "call" | "speech" | "picture"
  readonly text: string
  /** Whether the client is shown it. */
  readonly shown: boolean
  readonly tokens: number
}

export interface Answer {
  /** Of the prompt, with searches. */
  readonly prompt: Work
  readonly pieces: readonly Piece[]
  readonly choices: number
  readonly is_cut: boolean
  /** The service tier that was served; null for the default. */
  readonly tier: string | null
  readonly text_bytes: number
}

export function answerTo(body: Body, plan: Plan, dialect: Dialect): Answer {
  const counted = countPrompt(body)
  const searches = asksSearch(body) ? Math.min(plan.searches, MAX_SEARCHES) : 0
  const rounds = asksSearch(body) ? 1 + Math.min(plan.rounds, mostUses(body), MAX_ROUNDS - 1) : 1
  const prompt = promptWork(counted, rounds, plan, dialect, body)
  const choices = typeof body.n === "number" ? body.n : 1
  const { pieces, is_cut } =
    dialect.operation === "embeddings" ? NO_PIECES : generated(body, plan, dialect, choices)
  const asked = typeof body.service_tier === "string" ? body.service_tier : null
  return {
    prompt: { ...prompt, web_search: searches },
    pieces,
    choices,
    is_cut,
    tier: asked === null || asked === "default" || !plan.serves ? null : asked,
    text_bytes: counted.bytes,
  }
}

const NO_PIECES = { pieces: [], is_cut: false }

/** The work up to the n-th piece, of a dialect that tells only some kinds apart. */
export function workUpTo({ prompt, pieces }: Answer, count: number, { tells }: Dialect): Work {
  const work = { ...prompt }
  for (const { kind, tokens } of pieces.slice(0, count)) {
    const own = KINDS[kind]
    work[tells.has(own) ? own : "output"] += tokens
  }
  return work
}

const KINDS = {
  reasoning: "reasoning",
  text: "output",
  call: "output",
  speech: "audio_output",
  picture: "image_output",
} as const satisfies Record<Piece["kind"], keyof Work>

interface Counted {
  text: number
  image: number
  audio: number
  /** Of text. */
  bytes: number
}

const PROMPT_FIELDS = ["messages", "input", "system", "instructions", "tools"]
/** What a chat template adds to a message, and to a tool. */
const TURN_TOKENS = 4

function countPrompt(body: Body): Counted {
  const counted: Counted = { text: 3, image: 0, audio: 0, bytes: 0 }
  for (const field of PROMPT_FIELDS) count(body[field], field, counted)
  return counted
}

function count(value: unknown, name: string, counted: Counted): void {
  if (typeof value === "string") countString(value, name, counted)
  else if (Array.isArray(value)) {
    for (const one of value) count(one, name, counted)
  } else if (typeof value === "object" && value !== null) {
    if ("role" in value || name === "tools") counted.text += TURN_TOKENS
    for (const [key, item] of Object.entries(value)) if (!NOT_READ.has(key)) count(item, key, counted)
  }
}

const NOT_READ: ReadonlySet<string> = new Set([
  "type",
  "format",
  "filename",
  "media_type",
  "cache_control",
  "detail",
])
const DATA: ReadonlySet<string> = new Set(["url", "data", "file_data", "image_url"])

function countString(text: string, name: string, counted: Counted): void {
  if (DATA.has(name)) {
    const { image, audio, text: words } = weightOf(text)
    counted.image += image
    counted.audio += audio
    counted.text += words
    return
  }
  counted.text += tokensOf(text)
  counted.bytes += Buffer.byteLength(text)
}

function asksSearch({ web_search_options, tools }: Body): boolean {
  if (web_search_options !== undefined) return true
  return Array.isArray(tools) && tools.some(({ type }) => String(type).startsWith("web_search"))
}

function mostUses({ tools }: Body): number {
  const uses = Array.isArray(tools) ? tools.map(({ max_uses }) => max_uses) : []
  return uses.find((one): one is number => typeof one === "number") ?? MAX_ROUNDS
}

/** The prompt of all rounds, and which part of it came from the cache or went to it. */
function promptWork(
  counted: Counted,
  rounds: number,
  plan: Plan,
  { tells, splits_writes = true }: Dialect,
  body: Body,
): Work {
  const part = (kind: keyof Work, percent: number, of: number) =>
    tells.has(kind) ? Math.floor((of * percent) / 100) : 0
  const [text, image, audio] = [counted.text * rounds, counted.image * rounds, counted.audio * rounds]
  const cached_input = part("cached_input", plan.cached, text)
  const cached_audio_input = part("cached_audio_input", plan.cached, audio)
  const asks_hour = JSON.stringify(body.messages ?? null).includes('"ttl":"1h"')
  const written = part("cache_write", plan.written, text - cached_input)
  const for_an_hour = splits_writes ? plan.for_an_hour : 100
  // At least the part that the request asks it for.
  const cache_write_1h = asks_hour
    ? Math.max(
        part("cache_write_1h", for_an_hour, written),
        part("cache_write_1h", 100, Math.min(1, written)),
      )
    : 0
  const told_image = tells.has("image_input") ? image : 0
  const told_audio = tells.has("audio_input") ? audio - cached_audio_input : 0
  const input = text + image + audio - cached_input - cached_audio_input - written - told_image - told_audio
  return {
    ...NO_WORK,
    input,
    cached_input,
    cached_audio_input,
    cache_write: written - cache_write_1h,
    cache_write_1h,
    image_input: told_image,
    audio_input: told_audio,
  }
}

/** What each choice says, until the limit of the request. */
function generated(body: Body, plan: Plan, dialect: Dialect, choices: number) {
  const limit = limitOf(body)
  const pieces: Piece[] = []
  let is_cut = false
  for (let choice = 0; choice < choices; choice++) {
    let left = limit
    for (const piece of choicePieces(body, plan, dialect, choice)) {
      if (piece.tokens > left) {
        is_cut = true
        break
      }
      left -= piece.tokens
      pieces.push(piece)
    }
  }
  return { pieces, is_cut }
}

function limitOf({ max_tokens, max_output_tokens }: Body): number {
  const asked = max_tokens ?? max_output_tokens
  return typeof asked === "number" ? Math.min(asked, MAX_OUTPUT_TOKENS) : MAX_OUTPUT_TOKENS
}

const SPEECH = { tokens: 20, bytes: 600 }
const PICTURE = { tokens: 258, bytes: 4_000 }

function choicePieces(body: Body, plan: Plan, { tells, operation }: Dialect, choice: number) {
  const shown = plan.shows_thoughts || !tells.has("reasoning")
  const said = (kind: Piece["kind"], is_shown: boolean) => (passage: Plan["words"][number]) => {
    const text = textOf(passage.kind, passage.at + choice, passage.length)
    return { choice, kind, text, shown: is_shown, tokens: tokensOf(text) }
  }
  const data = (kind: Piece["kind"], { tokens, bytes }: typeof SPEECH, count: number) =>
    Array.from({ length: count }, () => ({ choice, kind, text: "A".repeat(bytes), shown: true, tokens }))
  const modalities: readonly unknown[] = Array.isArray(body.modalities) ? body.modalities : []
  return [
    ...plan.thoughts.map(said("reasoning", shown)),
    ...plan.words.map(said("text", true)),
    ...(operation === "chat" && plan.calls.length === 0 ? [] : plan.calls.map(said("call", true))),
    ...(modalities.includes("audio") ? data("speech", SPEECH, plan.speech) : []),
    ...(modalities.includes("image") ? data("picture", PICTURE, plan.pictures) : []),
  ]
}

export function isOnlyThinking(work: Work): boolean {
  return work.reasoning > 0 && outputOf(work) === work.reasoning
}

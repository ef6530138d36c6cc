import type { Dialect } from "./dialects.ts"
import type { Work } from "./price-list.ts"
import type { Answer, Piece } from "./provider.ts"

/** The answers of a provider as JSON, in the shape of each operation. */

export function jsonAnswer(answer: Answer, work: Work, dialect: Dialect, variant: number): string {
  const usage = dialect.usage(work, variant)
  const text = JSON.stringify(SHAPES[dialect.operation](answer, usage, dialect, work))
  return dialect.comment === undefined ? text : `\n\n${text}`
}

type Shape = (answer: Answer, usage: object, dialect: Dialect, work: Work) => object

const SHAPES: Readonly<Record<Dialect["operation"], Shape>> = {
  chat: (answer, usage, { tells, name }) => ({
    id: "c1",
    object: "chat.completion",
    model: "p",
    ...(tells.has("service_tier") && { service_tier: answer.tier ?? "default" }),
    choices: Array.from({ length: answer.choices }, (_, index) => ({
      index,
      message: messageOf(answer.pieces.filter(({ choice }) => choice === index)),
      finish_reason: finishOf(answer),
      ...(name === "moonshot" && index === answer.choices - 1 && { usage }),
    })),
    ...(name !== "moonshot" && { usage }),
  }),
  responses: (answer, usage, dialect, work) => ({
    ...responseHead(answer, dialect),
    status: "completed",
    output: itemsOf(answer, work),
    usage,
    ...(dialect.name === "openai responses" && {
      tool_usage: { web_search: { num_requests: work.web_search } },
    }),
  }),
  messages: (answer, usage) => ({
    ...MESSAGE,
    content: blocksOf(answer),
    stop_reason: stopOf(answer),
    usage,
  }),
  embeddings: (_, usage) => ({
    object: "list",
    data: [{ object: "embedding", index: 0, embedding: [0.5] }],
    usage,
  }),
}

export const MESSAGE = { id: "m1", type: "message", role: "assistant", model: "p" }

export const finishOf = ({ is_cut }: Answer) => (is_cut ? "length" : "stop")
export const stopOf = ({ is_cut }: Answer) => (is_cut ? "max_tokens" : "end_turn")

function messageOf(pieces: readonly Piece[]): object {
  const said = (kind: Piece["kind"]) => joined(pieces.filter((piece) => piece.kind === kind && piece.shown))
  const calls = pieces.filter(({ kind }) => kind === "call")
  const pictures = pieces.filter(({ kind }) => kind === "picture")
  return {
    role: "assistant",
    content: said("text"),
    ...(said("reasoning") !== "" && { reasoning_content: said("reasoning") }),
    ...(calls.length > 0 && { tool_calls: calls.map(callOf) }),
    ...(said("speech") !== "" && { audio: { id: "a1", data: said("speech"), transcript: "" } }),
    ...(pictures.length > 0 && { images: pictures.map(pictureOf) }),
  }
}

export function joined(pieces: readonly Piece[]): string {
  return pieces.map(({ text }) => text).join("")
}

export function callOf({ text }: Piece, index: number): object {
  return { index, id: `call_${index}`, type: "function", function: { name: "weather_0", arguments: text } }
}

export function pictureOf({ text }: Piece): object {
  return { type: "image_url", image_url: { url: `data:image/png;base64,${text}` } }
}

export function responseHead({ tier }: Answer, { tells }: Dialect): object {
  return {
    id: "r1",
    object: "response",
    model: "p",
    ...(tells.has("service_tier") && { service_tier: tier ?? "default" }),
  }
}

/** The items of a response, in the order of its pieces. */
export function itemsOf({ pieces }: Answer, { web_search }: Pick<Work, "web_search">): readonly Item[] {
  const of = (kind: Piece["kind"]) => pieces.filter((piece) => piece.kind === kind)
  const thoughts = of("reasoning")
  const summary = thoughts.filter(({ shown }) => shown).map(({ text }) => ({ type: "summary_text", text }))
  return [
    ...(thoughts.length > 0 ? [{ type: "reasoning", id: "rs1", summary }] : []),
    ...Array.from({ length: web_search }, (_, at) => ({
      type: "web_search_call",
      id: `ws${at}`,
      status: "completed",
      action: { type: "search", query: "w" },
    })),
    {
      type: "message",
      id: "ms1",
      role: "assistant",
      content: [{ type: "output_text", text: joined(of("text")), annotations: [] }],
    },
    ...of("call").map(({ text }, at) => ({
      type: "function_call",
      id: `fc${at}`,
      call_id: `call_${at}`,
      name: "weather_0",
      arguments: text,
    })),
  ]
}

export interface Item {
  readonly type: string
  readonly id: string
  readonly [name: string]: unknown
}

function blocksOf({ pieces }: Answer): readonly object[] {
  const of = (kind: Piece["kind"]) => pieces.filter((piece) => piece.kind === kind)
  const thoughts = of("reasoning")
  return [
    ...(thoughts.length === 0
      ? []
      : [{ type: "thinking", thinking: joined(thoughts.filter(({ shown }) => shown)), signature: "c2ln" }]),
    { type: "text", text: joined(of("text")) },
    ...of("call").map(({ text }, at) => ({
      type: "tool_use",
      id: `t${at}`,
      name: "weather_0",
      input: { q: text },
    })),
  ]
}

import { READ_MS, type Script } from "./provider.ts"

/** What a provider of the messages family sends. Written by hand, as an oracle: it takes nothing from the code under test. */

const COMMON = { id: "msg_9f2c", type: "message", role: "assistant", model: "provider-model-2025" }

/** The usage of a message: what was read anew, and what was said. */
export function messageUsage(input_tokens: number, output_tokens: number, more: object = {}) {
  return {
    input_tokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens,
    service_tier: "standard",
    ...more,
  }
}

/** A whole message; `overrides` replaces top-level fields (undefined leaves one out). */
export function aMessage(text: string, overrides: Record<string, unknown> = {}) {
  return {
    ...COMMON,
    content: [{ type: "text", text }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: messageUsage(10, 5),
    ...overrides,
  }
}

export function messageStart(usage: unknown = messageUsage(10, 1)) {
  return {
    type: "message_start",
    message: { ...COMMON, content: [], stop_reason: null, stop_sequence: null, usage },
  }
}

export function blockStart(index: number, content_block: object) {
  return { type: "content_block_start", index, content_block }
}

export function blockDelta(index: number, delta: object) {
  return { type: "content_block_delta", index, delta }
}

export function blockStop(index: number) {
  return { type: "content_block_stop", index }
}

export function messageDelta(usage: unknown, stop_reason: string | null = "end_turn") {
  return { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage }
}

export const MESSAGE_STOP = { type: "message_stop" }

export function textBlock(index: number, ...words: readonly string[]) {
  return [
    blockStart(index, { type: "text", text: "" }),
    ...words.map((text) => blockDelta(index, { type: "text_delta", text })),
    blockStop(index),
  ]
}

/** The events of an ordinary stream: 10 tokens in, 5 out. */
export function messageWords(...words: readonly string[]) {
  return [messageStart(), ...textBlock(0, ...words), messageDelta({ output_tokens: 5 }), MESSAGE_STOP]
}

export function namedEvent(data: { readonly type: string }): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
}

/** Answers with named events; a string is sent as it is. What follows the last one is the right end of the body, a RST, or a FIN. */
export function namedEvents(
  events: readonly (string | { readonly type: string })[],
  ending: "end" | "reset" | "close" = "end",
): Script {
  return async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream; charset=utf-8" })
    for (const event of events) await exchange.chunk(typeof event === "string" ? event : namedEvent(event))
    if (ending !== "end") await Bun.sleep(READ_MS)
    await exchange[ending]()
  }
}

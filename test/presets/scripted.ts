import {
  aMessage,
  MESSAGE_STOP,
  messageDelta,
  messageStart,
  namedEvents,
  textBlock,
} from "../support/messages.ts"
import {
  chatChunk,
  chatCompletion,
  json,
  type RecordedRequest,
  type Script,
  sse,
  usageChunk,
} from "../support/provider.ts"
import { responseObject, responseStream, textItem, textStream } from "../support/responses.ts"
import type { Server } from "./servers.ts"

export const WORDS = ["It is ", "billed ", "exactly."]

/** The answers of a server; `refusal` is what it says instead, if anything. */
export function scriptOf(
  server: Server,
  refusal: () => readonly [number, unknown, ...string[]] | null,
): Script {
  return (exchange) => {
    const fault = faultOf(exchange.request, server)
    if (fault !== null) return json(fault.status, { error: { message: fault.message } })(exchange)
    const refused = refusal()
    if (refused !== null) return json(refused[0], refused[1])(exchange)
    const { stream } = fieldsOf(exchange.request)
    const script = stream === true ? streamOf(server, exchange.request) : jsonOf(server)
    return script(exchange)
  }
}

/** What the server refuses of a request: another path, no credential, a field that it does not know. */
function faultOf(
  { path, headers, ...request }: Pick<RecordedRequest, "path" | "headers" | "json">,
  server: Server,
) {
  const expected = server.path.replace("MODEL", server.model)
  if (path !== expected) return { status: 404, message: `no such path: ${path}` }
  const [header, prefix] = server.credential
  const others = ["authorization", "x-api-key", "api-key"].filter(
    (name) => name !== header && name in headers,
  )
  if (!headers[header]?.startsWith(`${prefix}sk-`) || others.length > 0)
    return { status: 401, message: "no credential" }
  const body = fieldsOf(request)
  if (body.model !== server.model) return { status: 404, message: `no such model: ${body.model}` }
  const unknown = (server.refuses ?? []).find((field) => field in body)
  return unknown === undefined ? null : { status: 422, message: `extra_forbidden: ${unknown}` }
}

function fieldsOf({ json }: Pick<RecordedRequest, "json">): Readonly<Record<string, unknown>> {
  return typeof json === "object" && json !== null ? { ...json } : {}
}

function jsonOf({ usage, operation, blank = "" }: Server): Script {
  const text = WORDS.join("")
  const answer = {
    chat: chatCompletion(text, { usage }),
    responses: responseObject([textItem(text)], { usage }),
    messages: aMessage(text, { usage }),
  }[operation]
  return json(200, blank + JSON.stringify(answer))
}

function streamOf(server: Server, request: RecordedRequest): Script {
  const { usage, comment = "", operation } = server
  if (operation === "responses") return responseStream(textStream(WORDS, usage))
  if (operation === "messages")
    return namedEvents([
      messageStart({ ...usage, output_tokens: 1 }),
      ...textBlock(0, ...WORDS),
      messageDelta(usage),
      MESSAGE_STOP,
    ])
  const { stream_options } = fieldsOf(request)
  const is_told = server.asks !== true || Bun.deepEquals(stream_options, { include_usage: true })
  const words = [
    chatChunk({ role: "assistant", content: "" }),
    ...WORDS.map((content) => chatChunk({ content })),
  ]
  return sse([
    ...words.flatMap((word) => [comment, word]).filter((part) => part !== ""),
    ...ends(server, is_told),
  ])
}

/** The last events of a chat stream, with the usage where it stands. */
function ends({ usage, place = "own chunk" }: Server, is_told: boolean): readonly unknown[] {
  const finish = (more: object = {}) => chatChunk({}, "stop", { ...more })
  if (!is_told) return [finish()]
  switch (place) {
    case "own chunk":
      return [finish(), usageChunk(usage)]
    case "finish":
      return [finish({ usage })]
    case "second finish":
      return [finish(), finish({ usage })]
    case "x_groq":
      return [finish({ x_groq: { id: "req_1", usage } })]
    case "choice":
      return [finish({ choices: [{ index: 0, delta: {}, finish_reason: "stop", usage }] })]
  }
}

import {
  aMessage,
  MESSAGE_STOP,
  messageDelta,
  messageStart,
  messageUsage,
  namedEvents,
  textBlock,
} from "../support/messages.ts"
import {
  chatCompletion,
  chatWords,
  json,
  type RecordedRequest,
  type Script,
  sse,
  usage,
  usageChunk,
} from "../support/provider.ts"
import { responseObject, responseStream, responseUsage, textItem, textStream } from "../support/responses.ts"
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

const USAGE = {
  chat: usage(20, 10),
  responses: responseUsage(20, 10),
  messages: messageUsage(20, 10),
}

function jsonOf({ operation, usage = USAGE[operation] }: Server): Script {
  const text = WORDS.join("")
  const answer = {
    chat: chatCompletion(text, { usage }),
    responses: responseObject([textItem(text)], { usage }),
    messages: aMessage(text, { usage }),
  }[operation]
  return json(200, answer)
}

function streamOf({ operation, asks, usage = USAGE[operation] }: Server, request: RecordedRequest): Script {
  if (operation === "responses") return responseStream(textStream(WORDS, usage))
  if (operation === "messages")
    return namedEvents([
      messageStart({ ...usage, output_tokens: 1 }),
      ...textBlock(0, ...WORDS),
      messageDelta(usage),
      MESSAGE_STOP,
    ])
  const { stream_options } = fieldsOf(request)
  const is_told = asks !== true || Bun.deepEquals(stream_options, { include_usage: true })
  return sse([...chatWords(...WORDS), ...(is_told ? [usageChunk(usage)] : [])])
}

import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { messages } from "../operations/messages.ts"
import { vendorInPath } from "../operations/request-headers.ts"
import type { Gateway } from "../service/gateway.ts"
import { count, nullable, open, text } from "../wire/field.ts"
import { MessagesRequest } from "../wire/messages-request.ts"
import { answering, modelCall } from "./model-calls.ts"
import {
  answer,
  described,
  events,
  type RouteDescription,
  type Schemas,
  shown,
} from "./reference/operation.ts"
import { callErrors, callHeaders } from "./reference/routes.ts"

const PATH = "/v1/messages"

/** `POST /v1/messages`, and the same below a vendor's name (D64, D21). */
export function messageCalls(gateway: Gateway) {
  const answersOfVendor = ({ request, path }: { readonly request: Request; readonly path: string }) =>
    modelCall(gateway, messages, request, vendorInPath(path, PATH, gateway.config.vendors))
  return new Elysia({ name: "messages" })
    .post(PATH, answering(gateway, messages), described(creating))
    .post(`/:vendor${PATH}`, answersOfVendor, described(ofVendor(creating)))
}

export function ofVendor<Route extends RouteDescription>(route: Route) {
  const { operationId, summary } = route
  return {
    ...route,
    operationId: `${operationId}OfVendor`,
    summary: `${summary} (vendor path)`,
    params: vendorParams,
  }
}

/** The headers of every route of the messages API (D21, D65). */
export const vendorHeaders = {
  "anthropic-version": Type.String({
    format: "date",
    description:
      "The version of the messages API, a calendar date. The header is named after the vendor, `<vendor>-version`. On the path without a vendor, send the header of exactly one configured vendor.",
    examples: ["2023-06-01"],
  }),
  "anthropic-beta": Type.Optional(
    Type.String({
      maxLength: 2048,
      description:
        "Sent to the provider unchanged, like every other header of the vendor. The header is named after the vendor, `<vendor>-beta`.",
    }),
  ),
}

const vendorParams = Type.Object({
  vendor: Type.String({
    description: "The name of a configured vendor of a messages API.",
    examples: ["anthropic"],
  }),
})

/** The provider's answers, described for readers. The bytes pass unchanged, with all further fields (D24). */

const Usage = open(
  {
    input_tokens: count("The prompt, without what was read from a cache or written to one."),
    cache_read_input_tokens: Type.Optional(
      Type.Union([count("Read from the cache: charged at the cached price."), Type.Null()]),
    ),
    cache_creation_input_tokens: Type.Optional(
      Type.Union([count("Written to the cache: charged at the price of cache writes."), Type.Null()]),
    ),
    output_tokens: count("The output, thinking included."),
  },
  "The usage that the call is charged for, if it is valid.",
)

const Message = open({
  id: Type.String(),
  type: Type.Literal("message"),
  role: Type.Literal("assistant"),
  model: text("The provider's name of the model."),
  content: Type.Array(open({ type: Type.String() })),
  stop_reason: nullable(Type.String()),
  stop_sequence: nullable(Type.String()),
  usage: Type.Optional(Usage),
})

const MessageEvent = open(
  {
    type: text(
      "The name of the event: `message_start`, `content_block_start`, `content_block_delta`, `content_block_stop`, `message_delta`, `message_stop`, `ping` or `error`.",
    ),
  },
  "The data of one event.",
)

const usage = { input_tokens: 11, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 }
const common = {
  id: "msg_01Hq2x",
  type: "message",
  role: "assistant",
  model: "claude-sonnet-4-5",
  stop_sequence: null,
}
const conversation = [{ role: "user", content: "Say hello." }]

const message = {
  ...common,
  content: [{ type: "text", text: "Hello there!" }],
  stop_reason: "end_turn",
  usage: { ...usage, output_tokens: 6 },
}

const textDelta = (text: string) => ({
  type: "content_block_delta",
  index: 0,
  delta: { type: "text_delta", text },
})

/** The events of the example stream, `message_stop` included. */
export const exampleEvents = [
  {
    type: "message_start",
    message: { ...common, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } },
  },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  textDelta("Hello"),
  textDelta(" there!"),
  { type: "content_block_stop", index: 0 },
  {
    type: "message_delta",
    delta: { stop_reason: "end_turn", stop_sequence: null },
    usage: { output_tokens: 6 },
  },
  { type: "message_stop" },
]

const exampleStream = exampleEvents
  .map((data) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`)
  .join("")

const creationDescription = `Holds, sends, charges and releases like a chat completion, by the same rules.

- Send the key as \`x-api-key\` or as a bearer token. If both headers have different keys, the one in the form of a Tollgate key is used.
- Fields that are not listed, headers of the vendor (\`<vendor>-*\`) and the query string are passed to the provider.
- An error of the provider is returned with its status and its body, unchanged. Errors about the gateway's own credential are replaced.
- With \`"stream": true\` the response is a stream of named events. An error after its start is the event \`error\`. \`ping\` events may come
  at any time.
- Disconnecting early does not make a call free: the input that the provider has counted and the output so far are charged.
- A 402 states the amount to hold, the amount available, and the largest \`max_tokens\` that fits.`

const creationHeaders = Type.Object({ ...vendorHeaders, ...callHeaders.properties })

const creating = {
  parse: "none" as const,
  body: shown(MessagesRequest, {
    JSON: { model: "claude-sonnet", max_tokens: 1024, messages: conversation },
    Stream: { model: "claude-sonnet", max_tokens: 1024, messages: conversation, stream: true },
  }),
  response: {
    200: answer(
      "The provider's response, unchanged: JSON, or events if the request sets `stream`.",
      Type.Union([shown(Message, { Message: message }), events(MessageEvent, exampleStream)]),
    ),
  },

  operationId: "createMessage",
  tag: "Calls",
  summary: "Create a message",
  description: creationDescription,
  credentials: ["xApiKey", "apiKey"],
  headers: creationHeaders,
  invalid: "max_tokens",
  errors: callErrors({
    needed: "0.01548",
    available: "0.0021",
    remaining: "0.0021",
    fitting: { limit_field: "max_tokens", max_tokens: 132 },
  }),
} satisfies RouteDescription & Schemas

import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { checkSuspension } from "../admission/accept.ts"
import { activeKey, checkAllowed } from "../admission/admit.ts"
import { hashOf } from "../admission/key.ts"
import { NEVER } from "../call/cutoff.ts"
import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { requestId } from "../id.ts"
import type { Standing } from "../ledger/entries.ts"
import { collect } from "../meter/body.ts"
import { messageEvents, messages } from "../operations/messages.ts"
import {
  messagesCredential,
  passedHeaders,
  vendorInPath,
  vendorVersion,
} from "../operations/request-headers.ts"
import type { Gateway } from "../service/gateway.ts"
import { AnswerWait } from "../upstream/answer-wait.ts"
import { sentTo } from "../upstream/edits.ts"
import { forward } from "../upstream/forward.ts"
import { jsonHeaders } from "../upstream/headers.ts"
import {
  CountTokensRequest,
  checkTokenCount,
  forCounting,
  generationFields,
  parseCountTokens,
  TokenCount,
} from "../wire/count-tokens.ts"
import { count, nullable, open, text } from "../wire/field.ts"
import { FieldTexts, readLargeBody } from "../wire/json.ts"
import { MessagesRequest } from "../wire/requests.ts"
import { recordedAttempts, traceOf } from "./call-record.ts"
import { answering, modelCall } from "./model-calls.ts"
import { rateHeaders } from "./rate-headers.ts"
import {
  answer,
  described,
  type ErrorExample,
  errorOf,
  events,
  type RouteDescription,
  type Schemas,
  shown,
} from "./reference/operation.ts"
import { callErrors, callHeaders, PROVIDER_NOT_FOUND } from "./reference/routes.ts"
import { REQUEST_BYTES, readInTurn } from "./request-body.ts"

const PATH = "/v1/messages"

/** `POST /v1/messages`, and the same below a vendor's name (D64, D21). */
export function messageCalls(gateway: Gateway) {
  const answersOfVendor = ({ request, path }: { readonly request: Request; readonly path: string }) =>
    modelCall(gateway, messages, request, vendorInPath(path, PATH, gateway.config.vendors))
  return new Elysia({ name: "messages" })
    .post(PATH, answering(gateway, messages), described(creating))
    .post(`/:vendor${PATH}`, answersOfVendor, described(ofVendor(creating)))
}

function ofVendor<Route extends RouteDescription>(route: Route) {
  const { operationId, summary } = route
  return {
    ...route,
    operationId: `${operationId}OfVendor`,
    summary: `${summary} (vendor path)`,
    params: vendorParams,
  }
}

/** The headers of every route of the messages API (D21, D65). */
const vendorHeaders = {
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

/** Schemas of the provider's answers, for the reference only. The bytes pass unchanged, with all further fields (D24). */

const Usage = open(
  {
    input_tokens: count("The prompt, without the parts that were read from a cache or written to one."),
    cache_read_input_tokens: Type.Optional(
      nullable(count("Read from the cache: charged at the cached price.")),
    ),
    cache_creation_input_tokens: Type.Optional(
      nullable(count("Written to the cache: charged at the price of cache writes.")),
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

const conversation = [{ role: "user", content: "Say hello." }]

const message = {
  id: "msg_01Hq2x",
  type: "message",
  role: "assistant",
  model: "claude-sonnet-4-5",
  content: [{ type: "text", text: "Hello there!" }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 11, cache_read_input_tokens: 0, cache_creation_input_tokens: 0, output_tokens: 6 },
}

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
      Type.Union([shown(Message, { Message: message }), events(MessageEvent, messageEvents(message))]),
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

const COUNT_PATH = "/v1/messages/count_tokens"
/** Maximum length of a provider's token count, which is one number. */
const MAX_COUNT_BYTES = 65_536

/** `POST /v1/messages/count_tokens` and `POST /<vendor>/v1/messages/count_tokens` (spec 4.3): holds and charges nothing (D22). */
export function countTokens(gateway: Gateway) {
  return new Elysia({ name: "count-tokens" })
    .post(COUNT_PATH, ({ request }) => countOf(gateway, request, null), described(counting))
    .post(
      `/:vendor${COUNT_PATH}`,
      ({ request, path }) =>
        countOf(gateway, request, vendorInPath(path, COUNT_PATH, gateway.config.vendors)),
      described(ofVendor(counting)),
    )
}

async function countOf(gateway: Gateway, request: Request, vendor: string | null): Promise<Response> {
  const { config, key_loads, memory, breakers, metrics, sockets } = gateway
  const { limits } = config
  const trace = traceOf(gateway, request)
  const key_hash = hashOf(messagesCredential(request.headers))
  const known = gateway.ledger.owner(key_hash)
  if (known !== null) key_loads.check(known.key_id, limits.per_key)
  const standing = await activeKey(gateway, key_hash, request)
  const { key_id } = standing
  checkSuspension(standing)
  const id = requestId(request)
  const releaseKeySlot = key_loads.takeSlot(key_id, { ...limits.per_key, requests_per_minute: null })
  const part = memory.of(standing.account_id, limits)
  const answer_wait = new AnswerWait(request.signal, NEVER)
  try {
    const bytes = await readInTurn(request, limits, part)
    const passed = passedHeaders(request.headers, vendorVersion(request.headers, config.vendors, vendor))
    const { named, texts } = await readLargeBody(
      bytes,
      (object) => {
        const parsed = parseCountTokens(object)
        const counted = new FieldTexts(forCounting(parsed))
        counted.release()
        return { named: parsed.model, texts: counted }
      },
      (size) => part.read(size),
    )
    const model = openModel(gateway, named, standing)
    checkBalance(standing)
    if (bytes.byteLength > REQUEST_BYTES) await part.read(bytes.byteLength)
    sockets.keepOpen(request)
    const reply = await forward(
      model.routes,
      {
        request_id: id,
        account_id: standing.account_id,
        affinity: null,
        path: COUNT_PATH,
        refusals: messages.refusals,
        stream: false,
        body: ({ upstream, model: name }) => sentTo(upstream, texts, { model: name }),
        headers: passed,
        onAttempt: () => answer_wait.beginAttempt(null),
        signal: answer_wait.signal,
      },
      breakers,
      recordedAttempts(gateway, id, trace, "count_tokens"),
    )
    const collected = collect({
      source: reply.body,
      length: reply.length,
      limit_bytes: Math.min(limits.response_bytes, MAX_COUNT_BYTES),
      read_bytes: MAX_COUNT_BYTES,
      form: messages.json,
      total_ms: reply.route.upstream.timeouts.total_ms,
      began_ms: reply.began_ms,
      unwanted: answer_wait.signal,
      memory: null,
    })
    const answer = collected instanceof Promise ? await collected : collected
    if (answer.ending === "deadline") throw new GatewayError("upstream_timeout")
    if (answer.cut || answer.large !== null)
      throw new GatewayError("upstream_error", { cause: `the count was cut: ${answer.ending}` })
    checkTokenCount(answer.bytes)
    metrics.tokensCounted(model.name)
    const rate = rateHeaders(gateway, key_id, "messages", request)
    return new Response(answer.bytes, { headers: { ...jsonHeaders(id), ...rate } })
  } catch (error) {
    if (!answer_wait.signal.aborted) throw error
    throw new GatewayError("overloaded", {
      message: "The client disconnected before the token count was ready.",
    })
  } finally {
    releaseKeySlot()
    part.free()
    answer_wait.end()
    sockets.restore(request)
  }
}

function checkBalance({ available_nano }: Standing): void {
  if (available_nano <= 0n) throw errorOf(NO_BALANCE)
}

const NO_BALANCE = {
  code: "insufficient_balance",
  message:
    "The account has no available balance. Counting tokens is free, but the balance must be above zero. Add credit.",
} as const satisfies ErrorExample

/** The model that a key may count with (D22). 404 if there is none, 403 if the key or path forbids it. */
function openModel({ catalog }: Gateway, name: string, standing: Standing): Model {
  const found = catalog.find(name, "messages")
  if (found instanceof GatewayError) throw found
  checkAllowed(standing, found)
  return found
}

const countErrors: readonly ErrorExample[] = [
  "invalid_api_key",
  NO_BALANCE,
  "account_suspended",
  "key_suspended",
  "model_not_allowed",
  "model_not_found",
  PROVIDER_NOT_FOUND,
  "rate_limited",
  "upstream_error",
  "upstream_unavailable",
  "ledger_unavailable",
  "upstream_timeout",
]

const countDescription = `Asks a provider of the model how many tokens the input has. Nothing is held or charged, but the gateway checks the key, the
balance (it must be above zero), the model and the provider as for a call.

Send the key as \`x-api-key\` or as a bearer token. The gateway removes fields that only generation uses
before it passes the request on: ${generationFields.map((field) => `\`${field}\``).join(", ")}.`

const counting = {
  parse: "none" as const,
  body: shown(CountTokensRequest, {
    Question: { model: "claude-sonnet", messages: [{ role: "user", content: "Say hello." }] },
    "With instructions": {
      model: "claude-sonnet",
      system: "Answer in one word.",
      messages: [{ role: "user", content: "Say hello." }],
    },
  }),
  response: { 200: answer("The token count of the provider.", TokenCount, { Count: { input_tokens: 11 } }) },

  operationId: "countTokens",
  tag: "Token count",
  summary: "Count input tokens",
  description: countDescription,
  credentials: ["xApiKey", "apiKey"],
  headers: Type.Object(vendorHeaders),
  invalid: "messages",
  errors: countErrors,
} satisfies RouteDescription & Schemas

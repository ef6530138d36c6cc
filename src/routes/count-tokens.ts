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
import { messages } from "../operations/messages.ts"
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
import { FieldTexts, readLargeBody } from "../wire/json.ts"
import { recordedAttempts, traceOf } from "./call-record.ts"
import { ofVendor, vendorHeaders } from "./messages.ts"
import { rateHeaders } from "./rate-headers.ts"
import {
  answer,
  described,
  type ErrorExample,
  errorOf,
  type RouteDescription,
  type Schemas,
  shown,
} from "./reference/operation.ts"
import { PROVIDER_NOT_FOUND } from "./reference/routes.ts"
import { readBody } from "./request-body.ts"

const PATH = "/v1/messages/count_tokens"
/** A provider's count is one number. */
const MAX_COUNT_BYTES = 65_536

/** `POST /v1/messages/count_tokens` and `POST /<vendor>/v1/messages/count_tokens` (spec 4.3): holds and charges nothing (D22). */
export function countTokens(gateway: Gateway) {
  return new Elysia({ name: "count-tokens" })
    .post(PATH, ({ request }) => count(gateway, request, null), described(counting))
    .post(
      `/:vendor${PATH}`,
      ({ request, path }) => count(gateway, request, vendorInPath(path, PATH, gateway.config.vendors)),
      described(ofVendor(counting)),
    )
}

async function count(gateway: Gateway, request: Request, vendor: string | null): Promise<Response> {
  const { config, key_loads, memory, breakers, metrics, sockets } = gateway
  const { limits } = config
  const trace = traceOf(gateway, request)
  const key_hash = hashOf(messagesCredential(request.headers))
  key_loads.check(key_hash, limits.per_key)
  const standing = await activeKey(gateway, key_hash, request)
  checkSuspension(standing)
  const id = requestId(request)
  const releaseKeySlot = key_loads.takeSlot(key_hash, { ...limits.per_key, requests_per_minute: null })
  const part = memory.of(standing.account_id, limits)
  const answer_wait = new AnswerWait(request.signal, NEVER)
  try {
    const bytes = await readBody(request, limits, part)
    const passed = passedHeaders(request.headers, vendorVersion(request.headers, config.vendors, vendor))
    const parsed = parseCountTokens(await readLargeBody(bytes))
    const model = openModel(gateway, parsed.model, standing)
    checkBalance(standing)
    sockets.keepOpen(request)
    const reply = await forward(
      model.routes,
      {
        request_id: id,
        account_id: standing.account_id,
        affinity: null,
        path: PATH,
        refusals: messages.refusals,
        stream: false,
        body: ({ upstream, model: name }) => sentTo(upstream, new FieldTexts(forCounting(parsed, name)), {}),
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
    const rate = rateHeaders(gateway, key_hash, "messages", request)
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

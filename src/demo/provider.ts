import { parseCountTokens } from "../wire/count-tokens.ts"
import { checked, type DemoAnswer, DemoError } from "./answer.ts"
import { completeChat, newId } from "./chat.ts"
import { embed } from "./embeddings.ts"
import { completeMessage, messagesModel } from "./messages.ts"
import { respond } from "./responses.ts"
import { PrefixCache, promptTokens } from "./tokens.ts"

export const PROVIDER_KEY = "demo-provider"

/** A larger body is refused, like one over the context of a real model. */
const MAX_BODY_BYTES = 1_048_576

/** The pause between two words: 20 to 40 ms, like a small model. */
const PACE_MS = { least: 20, spread: 21 }

/**
 * Starts a provider of both families on a free port of the loopback interface. It needs no network and no secrets. Its `url` has no
 * trailing slash; chat completions and embeddings are below `/v1`.
 */
export async function startDemoProvider() {
  const cache = new PrefixCache()
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    maxRequestBodySize: 64 * MAX_BODY_BYTES,
    routes: {
      "/v1/chat/completions": openAi((body) => completeChat(body, cache)),
      "/v1/responses": openAi((body) => respond(body, cache)),
      "/v1/embeddings": openAi((body) => ({ json: embed(body) })),
      "/v1/messages": anthropic((body) => completeMessage(body, cache)),
      "/v1/messages/count_tokens": anthropic(countTokens),
    },
    fetch: () => openAiError(new DemoError(404, "invalid_request_error", "Unknown request URL.")),
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) }
}

type Complete = (body: unknown) => DemoAnswer

/** The operations of a family have the same credential, errors and pace. */
const openAi = (complete: Complete) => ({
  POST: (request: Request) => answered(request, checkBearer, complete, openAiError),
})
const anthropic = (complete: Complete) => ({
  POST: (request: Request) => answered(request, checkMessages, complete, anthropicError),
})

async function answered(
  request: Request,
  check: (request: Request) => void,
  complete: Complete,
  printError: (refusal: DemoError) => Response,
): Promise<Response> {
  try {
    check(request)
    const answer = complete(await jsonOf(request))
    if ("json" in answer) return Response.json(answer.json)
    return new Response(paced(answer.bursts), {
      headers: { "content-type": "text/event-stream; charset=utf-8" },
    })
  } catch (error) {
    if (error instanceof DemoError) return printError(error)
    throw error
  }
}

function checkBearer(request: Request): void {
  if (request.headers.get("authorization") !== `Bearer ${PROVIDER_KEY}`) {
    throw new DemoError(401, "invalid_request_error", "Incorrect API key provided.", {
      code: "invalid_api_key",
    })
  }
}

function checkMessages({ headers }: Request): void {
  if (headers.get("x-api-key") !== PROVIDER_KEY) {
    throw new DemoError(401, "authentication_error", "invalid x-api-key")
  }
  if (headers.get("anthropic-version") === null) {
    throw new DemoError(400, "invalid_request_error", "anthropic-version: header is required")
  }
}

function countTokens(body: unknown): DemoAnswer {
  const call = checked(parseCountTokens, body)
  if (call.model !== messagesModel) throw new DemoError(404, "not_found_error", "model: not found")
  return { json: { input_tokens: promptTokens(call).length } }
}

async function jsonOf(request: Request): Promise<unknown> {
  const bytes = await request.bytes()
  if (bytes.length > MAX_BODY_BYTES) {
    const message = "The input is longer than the context of the demo's models."
    const details = { code: "context_length_exceeded", param: "messages" }
    throw new DemoError(400, "invalid_request_error", message, details)
  }
  try {
    return JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    throw new DemoError(400, "invalid_request_error", "We could not parse the JSON body of your request.")
  }
}

/** Sends the first burst immediately and the others after pauses. Stops when the client disconnects. */
function paced(bursts: readonly string[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let sent = 0
  let left = false
  return new ReadableStream(
    {
      async pull(controller) {
        if (sent > 0) await Bun.sleep(PACE_MS.least + ((sent * 7) % PACE_MS.spread))
        if (left) return
        controller.enqueue(encoder.encode(bursts[sent]))
        sent += 1
        if (sent === bursts.length) controller.close()
      },
      cancel() {
        left = true
      },
    },
    { highWaterMark: 0 },
  )
}

function openAiError({ status, error }: DemoError): Response {
  return Response.json({ error }, { status })
}

function anthropicError({ status, error: { message, type } }: DemoError): Response {
  const request_id = newId("req_")
  return Response.json({ type: "error", error: { type, message }, request_id }, { status })
}

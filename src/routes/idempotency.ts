import type { Accepted } from "../admission/accept.ts"
import { hashOf } from "../admission/key.ts"
import type { Call } from "../call/call.ts"
import { GatewayError } from "../errors.ts"
import type { Idempotency } from "../ledger/entries.ts"
import type { Passed } from "../operations/operation.ts"
import type { Gateway } from "../service/gateway.ts"
import { jsonHeaders } from "../upstream/headers.ts"
import type { OperationName } from "../wire/call.ts"

const HEADER = "idempotency-key"
/** Printable ASCII. A header that is sent twice arrives as one value with a comma, and counts as that value. */
const KEY = /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/

/** The hashes of a call's `Idempotency-Key` and of its request (D43); null without a key. Throws for a malformed key. */
export function idempotencyOf(
  headers: Headers,
  operation: OperationName,
  body: Uint8Array,
  passed: Passed | null,
): Idempotency | null {
  const key = headers.get(HEADER)
  if (key === null) return null
  if (!KEY.test(key)) {
    throw new GatewayError("invalid_request", {
      message: "`Idempotency-Key`: expected 1 to 255 printable ASCII characters.",
      param: "Idempotency-Key",
    })
  }
  return { key_hash: hashOf(key), body_hash: hashOf(requestOf(operation, body, passed)) }
}

/** The hashed parts of a request. For a chat call only the bytes, so that older keys keep their hashes. */
function requestOf(operation: OperationName, body: Uint8Array, passed: Passed | null): Uint8Array {
  if (operation === "chat") return body
  const beside = passed === null ? "" : JSON.stringify([passed.headers, passed.query])
  return Buffer.concat([Buffer.from(`${operation}${beside}\n`), body])
}

/** Larger answers are not kept: the ledger does not store files (D43). */
const MAX_KEPT_BYTES = 1 << 20

/** Keeps the answer, if configured (D43), at most as long as a settlement (D32). Failures are logged only. */
export async function keepAnswer({ ledger, config, log }: Gateway, call: Call, body: Uint8Array) {
  const { keep_answers_ms } = config.idempotency
  const { id, idempotency } = call.hold
  if (idempotency === null || keep_answers_ms === null || body.byteLength > MAX_KEPT_BYTES) return
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(body)
    await ledger.shard(call.shard).keepAnswer(id, text, keep_answers_ms)
  } catch {
    log.warn({ request_id: id }, "the response could not be stored for its Idempotency-Key")
  }
}

/** The kept answer of the call with the same `Idempotency-Key`, with that call's id (D43). Null without one. */
export async function replayAnswer(
  { ledger, config, metrics }: Gateway,
  { owner }: Accepted,
  error: unknown,
): Promise<Response | null> {
  if (!(error instanceof GatewayError) || error.code !== "idempotency_key_used") return null
  metrics.repeated()
  const call_id = error.detail.fields?.call
  if (typeof call_id !== "string" || config.idempotency.keep_answers_ms === null) return null
  const body = await ledger.shard(owner.shard).keptAnswer(call_id)
  if (body === null) return null
  return new Response(body, { headers: { ...jsonHeaders(call_id), "idempotent-replayed": "true" } })
}

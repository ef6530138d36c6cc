import type { Call } from "../call.ts"
import { GatewayError } from "../errors.ts"
import type { Gateway } from "../gateway.ts"
import { jsonHeaders } from "../upstream/headers.ts"

/** Answers beyond this are not kept: the ledger is no store of files (D43). */
const MAX_KEPT_BYTES = 1 << 20

/**
 * Keeps the answer to a call that came with an `Idempotency-Key`, where the configuration says so (D43); waits no longer
 * for it than for a settlement (D32). An answer that could not be kept is not told again, and harms nothing else.
 */
export async function keepAnswer(
  { ledger, config, log }: Gateway,
  call: Call,
  body: Uint8Array,
): Promise<void> {
  const { keep_answers_ms } = config.idempotency
  const { id, idempotency } = call.hold
  if (idempotency === null || keep_answers_ms === null || body.byteLength > MAX_KEPT_BYTES) return
  try {
    await ledger.keepAnswer(id, new TextDecoder("utf-8", { fatal: true }).decode(body), keep_answers_ms)
  } catch {
    log.warn({ request_id: id }, "the response could not be stored for its Idempotency-Key")
  }
}

/**
 * What to tell a request that `admit` refused with `error`: the kept answer of the call whose `Idempotency-Key` it
 * repeats, under that call's id (D43). Throws `error` when there is none, or it was refused for something else.
 */
export async function tellAgain({ ledger, config, metrics }: Gateway, error: unknown): Promise<Response> {
  if (!(error instanceof GatewayError) || error.code !== "idempotency_key_used") throw error
  metrics.repeated()
  const call_id = error.detail.fields?.call
  if (typeof call_id !== "string" || config.idempotency.keep_answers_ms === null) throw error
  const body = await ledger.keptAnswer(call_id)
  if (body === null) throw error
  return new Response(body, { headers: { ...jsonHeaders(call_id), "idempotent-replayed": "true" } })
}

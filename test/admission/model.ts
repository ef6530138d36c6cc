import { describe } from "../../src/admission/describe.ts"
import { InFlight } from "../../src/admission/in-flight.ts"
import { type Quote, quote } from "../../src/admission/quote.ts"
import { Call } from "../../src/call/call.ts"
import type { Model } from "../../src/config/config.ts"
import { chat } from "../../src/operations/chat.ts"
import type { NamedModel, OperationOn } from "../../src/operations/operation.ts"
import { NO_LIMITS } from "../../src/wire/usage.ts"
import { anUpstream } from "../support/upstream.ts"

/** What a call of the model would hold. */
export function quoteOf<Request extends NamedModel>(
  operation: OperationOn<Request>,
  request: Request,
  model: Model,
): Quote {
  return quote(operation, describe(operation.name, operation.texts(request)), model)
}

/** A model of the tests, as the configuration would make it. */
export function aModel(parts: Partial<Model>): Model {
  return {
    name: "m",
    family: "chat",
    operations: [parts.family ?? "chat"],
    routes: [{ upstream: anUpstream(), model: "upstream-model", priority: 0, weight: 1 }],
    price: { input_pico: 250_000n, cached_input_pico: 25_000n, output_pico: 2_000_000n, per_call_nano: 0n },
    tiers: [],
    service_tiers: [],
    max_output_tokens: 1_000,
    hold_output_tokens: 1_000,
    part_tokens: null,
    context_tokens: null,
    open: { hold_rounds: 1, max_rounds: 32 },
    refuse: [],
    set: {},
    hold: "worst",
    hold_searches: 10,
    unlimited_thinking: false,
    bytes_per_token: 4,
    estimate: { prompt: "client_cut", hidden_output: null },
    ...parts,
  }
}

interface CallParts {
  readonly terms_ids?: readonly number[]
  readonly service_tier?: string | undefined
  readonly price_multiplier_bp?: number | undefined
}

/** A call of the model, which its first upstream answers. */
export function aCall(
  model: Model,
  { terms_ids = [], service_tier, price_multiplier_bp }: CallParts = {},
): Call {
  const hold = {
    ...{ id: "", account_id: "", key_id: "", amount_nano: 1n, terms_id: 1, stream: false, idempotency: null },
    ...(price_multiplier_bp !== undefined && { price_multiplier_bp }),
  }
  const bounds = {
    ...{ estimate_bytes: 0, n: 1, limits: NO_LIMITS, searches: 0 },
    ...{ is_hiding: false, writes_for_an_hour: false },
    service_tier: service_tier ?? null,
  }
  const slot = { key_hash: "k", releaseSlot() {} }
  const call = new Call(chat, hold, model, terms_ids, bounds, new InFlight(), slot, 0)
  call.answeredBy(model.routes[0])
  return call
}

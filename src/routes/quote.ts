import { Elysia } from "elysia"
import { activeKey, checkAllowed, foreseen } from "../admission/admit.ts"
import { askedOf } from "../admission/asked.ts"
import { describe } from "../admission/describe.ts"
import { hashOf } from "../admission/key.ts"
import { largestMaxTokens, type Quote, quote } from "../admission/quote.ts"
import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import type { Gateway } from "../gateway.ts"
import type { Standing } from "../ledger/entries.ts"
import { heldFor, PAR_BP, printMultiplier, printUsd, type Rate } from "../money.ts"
import type { Named, OperationOn } from "../operation.ts"
import { chat } from "../operations/chat.ts"
import { embeddings } from "../operations/embeddings.ts"
import { messages } from "../operations/messages.ts"
import { chatCredential } from "../operations/request-headers.ts"
import { responses } from "../operations/responses.ts"
import { readLargeBody } from "../wire/json.ts"
import { parseQuoted, type QuoteBody, type QuotedOperation, quotedRefusals } from "../wire/quote.ts"
import { getQuote } from "./docs/receipts.ts"
import { pricesBody } from "./record-bodies.ts"
import { readBody } from "./request-body.ts"
import { forbidStoring } from "./routing.ts"

/** `POST /v1/quote`: what a call would hold, and whether it would be admitted. Holds and sends nothing (D47). */
export function quotes(gateway: Gateway) {
  return new Elysia({ name: "quotes" })
    .onAfterHandle(forbidStoring)
    .post("/v1/quote", ({ request }) => quoted(gateway, request), getQuote)
}

/** Checks in the order of a call (D30): key, body, model. The answer is what the ledger would decide. */
async function quoted(gateway: Gateway, request: Request): Promise<QuoteBody> {
  const { catalog, memory, config } = gateway
  const key_hash = hashOf(chatCredential(request.headers))
  const standing = await activeKey(gateway, key_hash, request.headers)
  const part = memory.of(standing.account_id, config.limits)
  try {
    const bytes = await readBody(request, config.limits, part)
    const { operation: name = "chat", ...body } = parseQuoted(await readLargeBody(bytes))
    const found = MEASURED[name](body, (model) => catalog.find(model, name))
    if (found.quoted instanceof GatewayError) {
      checkAllowed(standing, found.model)
      throw found.quoted
    }
    return quoteBody(name, found.quoted, found.model, standing, config.receipts.show_price_multiplier)
  } finally {
    part.free()
  }
}

/** What a request of any operation would hold, or why it is refused. Throws if it has a fault, or if there is no such model. */
type Measure = (
  body: object,
  find: (name: string) => Model | GatewayError,
) => { readonly model: Model; readonly quoted: Quote | GatewayError }

function measuring<Body extends Named>(operation: OperationOn<Body>): Measure {
  return (body, find) => {
    const request = operation.parse(body)
    const texts = operation.texts(request)
    const described = describe(operation.name, texts)
    const model = find(request.model)
    if (model instanceof GatewayError) throw model
    const asked = askedOf(operation.name, request, texts, described, model)
    return { model, quoted: asked instanceof GatewayError ? asked : quote(operation, asked, model) }
  }
}

const MEASURED: Readonly<Record<QuotedOperation, Measure>> = {
  chat: measuring(chat),
  embeddings: measuring(embeddings),
  responses: measuring(responses),
  messages: measuring(messages),
}

function quoteBody(
  operation: QuotedOperation,
  bounds: Quote,
  model: Model,
  standing: Standing,
  show_price_multiplier: boolean,
): QuoteBody {
  const { price } = model
  const { available_nano, spending, price_multiplier_bp } = standing
  const shown_bp = show_price_multiplier ? PAR_BP : (price_multiplier_bp ?? PAR_BP)
  const refusal = refusalOf(standing, model, bounds.cost_pico)
  const room_nano =
    spending !== null && spending.remaining_nano < available_nano ? spending.remaining_nano : available_nano
  return {
    model: model.name,
    operation,
    amount: printUsd(heldFor(bounds.cost_pico, price_multiplier_bp)),
    admitted: refusal === null,
    refusal,
    available: printUsd(available_nano),
    remaining: spending === null ? null : printUsd(spending.remaining_nano),
    prompt_tokens: bounds.prompt_tokens_bound,
    max_tokens: bounds.output_tokens_bound,
    n: bounds.n,
    largest_max_tokens: largestFor(bounds, model, room_nano, standing),
    ...(show_price_multiplier && { price_multiplier: printMultiplier(price_multiplier_bp ?? PAR_BP) }),
    prices: pricesBody(price, 0, null, shown_bp),
    tiers: tiersBody(model, null, shown_bp),
    service_tiers: model.service_tiers.flatMap((tier) => [
      pricesBody(tier.price, 0, tier.name, shown_bp),
      ...tiersBody(tier, tier.name, shown_bp),
    ]),
  }
}

/** The largest `max_tokens` that fits; the model's maximum if output is free. */
function largestFor(
  bounds: Quote,
  model: Model,
  room_nano: bigint,
  { price_multiplier_bp }: Standing,
): number | null {
  const { limit_field, costs, cost_pico } = bounds
  const free_output = limit_field !== null && costs.every(({ output_pico }) => output_pico === 0n)
  if (!free_output) return largestMaxTokens(bounds, model, room_nano, price_multiplier_bp)
  return heldFor(cost_pico, price_multiplier_bp) <= room_nano ? model.max_output_tokens : null
}

function tiersBody({ tiers }: Rate, name: string | null, price_multiplier_bp: number): QuoteBody["tiers"] {
  return tiers.map((tier) => pricesBody(tier.price, tier.above_tokens, name, price_multiplier_bp))
}

/** Why the ledger would not hold for this cost. Throws if the key is limited to other models, like its calls. */
function refusalOf(standing: Standing, model: Model, cost_pico: bigint): QuoteBody["refusal"] {
  const refused = foreseen(standing, model.name, cost_pico)
  if (refused === null) return null
  if (refused.outcome === "model_not_allowed") throw new GatewayError(refused.outcome, { param: "model" })
  const refusal = quotedRefusals.find((code) => code === refused.outcome)
  if (refusal === undefined) throw new Error("a quote was refused for a reason that only a hold can have")
  return refusal
}

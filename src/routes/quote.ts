import { Elysia } from "elysia"
import { activeKey, budgetsFor, checkAllowed, predictRefusal } from "../admission/admit.ts"
import { soldNow } from "../admission/customer-prices.ts"
import { describe } from "../admission/describe.ts"
import { hashOf } from "../admission/key.ts"
import { type ClientLabels, clientLabelsOf } from "../admission/labels.ts"
import { applyModelPolicy } from "../admission/model-policy.ts"
import { largestMaxTokens, type Quote, quote } from "../admission/quote.ts"
import type { Family, Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import type { Budget } from "../ledger/accounts/budgets.ts"
import type { Standing } from "../ledger/entries.ts"
import { heldFor, PAR_BP, printMultiplier, printUsd, type Rate } from "../money.ts"
import { chat } from "../operations/chat.ts"
import { embeddings } from "../operations/embeddings.ts"
import { messages } from "../operations/messages.ts"
import type { NamedModel, OperationOn } from "../operations/operation.ts"
import { chatCredential } from "../operations/request-headers.ts"
import { responses } from "../operations/responses.ts"
import type { Gateway } from "../service/gateway.ts"
import type { OperationName } from "../wire/call.ts"
import { readLargeBody } from "../wire/json.ts"
import { parseQuoted, QuoteBody, QuoteRequest, quotedRefusals } from "../wire/quote.ts"
import { ownBudget, pricesBody } from "./record-bodies.ts"
import { answer, described, shown } from "./reference/operation.ts"
import { OFTEN, TAG_ERRORS } from "./reference/routes.ts"
import { readInTurn } from "./request-body.ts"
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
  const standing = await activeKey(gateway, key_hash, request)
  const part = memory.of(standing.account_id, config.limits)
  try {
    const bytes = await readInTurn(request, config.limits, part)
    let priced = standing
    const read = (object: object) => {
      const { operation: name = "chat", ...body } = parseQuoted(object)
      const measured = MEASURED[name](body, request.headers, (model_name) => {
        const found = catalog.find(model_name, name)
        if (found instanceof GatewayError) return found
        const sold = soldNow(found, standing)
        priced = sold.standing
        return sold.model
      })
      return { name, ...measured }
    }
    const { name, model, quoted, client_labels } = await readLargeBody(bytes, read, (size) => part.read(size))
    if (quoted instanceof GatewayError) {
      checkAllowed(standing, model)
      throw quoted
    }
    const budgets = await budgetsFor(gateway, standing, model, client_labels)
    return quoteBody(name, quoted, model, priced, budgets, config.receipts.show_price_multiplier)
  } finally {
    part.free()
  }
}

/**
 * Reads the hold of a request of any operation, or the reason of its refusal. Throws for an invalid request or an
 * unknown model.
 */
type QuoteReader = (
  body: object,
  headers: Headers,
  find: (name: string) => Model | GatewayError,
) => {
  readonly model: Model
  readonly quoted: Quote | GatewayError
  readonly client_labels: ClientLabels | null
}

function measuring<Body extends NamedModel>(operation: OperationOn<Body>): QuoteReader {
  return (body, headers, find) => {
    const request = operation.parse(body)
    const texts = operation.texts(request)
    const described = describe(operation.name, texts, betasIn(headers, operation.family))
    const model = find(request.model)
    if (model instanceof GatewayError) throw model
    const allowed = applyModelPolicy(operation.name, request, texts, described, model)
    const quoted = allowed instanceof GatewayError ? allowed : quote(operation, allowed, model)
    texts.release()
    return { model, quoted, client_labels: clientLabelsOf(headers, texts, operation.family) }
  }
}

/** The headers of a messages call that can change its price (D61). */
function betasIn(headers: Headers, family: Family): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => family === "messages" && name.endsWith("-beta")))
}

const MEASURED: Readonly<Record<OperationName, QuoteReader>> = {
  chat: measuring(chat),
  embeddings: measuring(embeddings),
  responses: measuring(responses),
  messages: measuring(messages),
}

function quoteBody(
  operation: OperationName,
  bounds: Quote,
  model: Model,
  standing: Standing,
  budgets: readonly Budget[],
  show_price_multiplier: boolean,
): QuoteBody {
  const { price } = model
  const { available_nano, spending, price_multiplier_bp } = standing
  const shown_bp = show_price_multiplier ? PAR_BP : (price_multiplier_bp ?? PAR_BP)
  const refusal = refusalOf(standing, budgets, model, bounds)
  const rooms_nano = [
    ...(spending === null ? [] : [spending.remaining_nano]),
    ...budgets
      .filter(({ is_hard, unit }) => is_hard && unit === "usd")
      .map(({ amount, spent, held }) => amount - spent - held),
  ]
  let room_nano = available_nano
  for (const rest_nano of rooms_nano) if (rest_nano < room_nano) room_nano = rest_nano
  return {
    model: model.name,
    operation,
    amount: printUsd(heldFor(bounds.cost_pico, price_multiplier_bp)),
    admitted: refusal === null,
    refusal,
    available: printUsd(available_nano),
    remaining: spending === null ? null : printUsd(spending.remaining_nano),
    budgets: budgets.map(ownBudget),
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
function largestFor(bounds: Quote, model: Model, room_nano: bigint, { price_multiplier_bp }: Standing) {
  const { limit_field, costs, cost_pico } = bounds
  const free_output = limit_field !== null && costs.every(({ output_pico }) => output_pico === 0n)
  if (!free_output) return largestMaxTokens(bounds, model, room_nano, price_multiplier_bp)
  return heldFor(cost_pico, price_multiplier_bp) <= room_nano ? model.max_output_tokens : null
}

function tiersBody({ tiers }: Rate, name: string | null, price_multiplier_bp: number): QuoteBody["tiers"] {
  return tiers.map((tier) => pricesBody(tier.price, tier.above_tokens, name, price_multiplier_bp))
}

/** The reason why the ledger would not hold for this cost. Throws if the key is limited to other models. */
function refusalOf(
  standing: Standing,
  budgets: readonly Budget[],
  model: Model,
  bounds: Quote,
): QuoteBody["refusal"] {
  const refused = predictRefusal(standing, budgets, model.name, bounds)
  if (refused === null) return null
  if (refused.outcome === "model_not_allowed") throw new GatewayError(refused.outcome, { param: "model" })
  const is_rate = refused.outcome === "budget_reached" && refused.wait_ms !== undefined
  const refusal = quotedRefusals.find((code) => code === (is_rate ? "rate_limited" : refused.outcome))
  if (refusal === undefined) throw new Error("a quote was refused for a reason that only a hold can have")
  return refusal
}

const fits = {
  amount: "0.000447",
  admitted: true,
  available: "9.9707",
  remaining: "21.8",
  prompt_tokens: 187,
  max_tokens: 200,
  n: 1,
  largest_max_tokens: 128_000,
  tiers: [],
  service_tiers: [],
} satisfies Partial<QuoteBody>

const getQuote = described({
  parse: "none" as const,
  body: shown(QuoteRequest, {
    Call: { model: "gpt-5-mini", messages: [{ role: "user", content: "Say hello." }], max_tokens: 200 },
    Embeddings: {
      operation: "embeddings",
      model: "text-embedding-3-small",
      input: "The food was delicious.",
    },
  }),
  response: {
    200: answer("What the call would hold, and whether it would be admitted.", QuoteBody, {
      "The call would be admitted": fits,
      "The balance is too low": {
        ...fits,
        amount: "0.256047",
        admitted: false,
        refusal: "insufficient_balance",
        available: "0.0021",
        remaining: null,
        budgets: [],
        max_tokens: 128_000,
        largest_max_tokens: 1026,
      },
      "Embeddings would be admitted": {
        ...fits,
        model: "text-embedding-3-small",
        operation: "embeddings",
        amount: "0.0000005",
        prompt_tokens: 25,
        max_tokens: 0,
        largest_max_tokens: null,
        prices: { input: "0.02", cached_input: "0.02", output: "0", per_call: "0" },
      },
    }),
  },

  operationId: "getQuote",
  tag: "Receipts",
  summary: "Get a quote for a call",
  description: `Takes the body of a call and returns what the call would hold. Nothing is held or sent. \`operation\` names the operation of the body; the default is
\`chat\`. The gateway checks the body, the
key, the model and the tags as for the call, with the same errors. Send the headers of the call too: with the body they name its end user and tags, whose
budgets it counts in. A quote writes no names. If the balance, the spending limit or a budget is too low, or the key or the account is suspended, the response
is a 200 with the error code that the call would get. A quote does not predict unreachable providers or a gateway at capacity.`,
  credentials: ["apiKey"],
  invalid: "operation",
  errors: [
    ...TAG_ERRORS,
    "invalid_api_key",
    "model_not_allowed",
    "model_not_found",
    OFTEN,
    "ledger_unavailable",
  ],
})

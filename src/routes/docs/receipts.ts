import { pathId, query } from "../../wire/parameter.ts"
import { QuoteBody, QuoteRequest, quotedOperations } from "../../wire/quote.ts"
import { OwnAccount, Receipt } from "../../wire/receipt.ts"
import { UsageQuery, UsageReport } from "../../wire/usage-report.ts"
import { answer, type Fault, operation, shown } from "../openapi.ts"
import { accountExample, callExample, fieldFault, keyExample, NO_CALL, usageExample } from "./examples.ts"

const OFTEN: Fault = {
  code: "rate_limited",
  message: "This key has reached its rate limit. Wait for the time in the retry-after header, then retry.",
}
const errors: readonly Fault[] = [
  { code: "invalid_request", message: "This endpoint accepts no query parameters." },
  "invalid_api_key",
  OFTEN,
  "ledger_unavailable",
]

const whose = `Any key of the account that is not revoked or expired can read it. Suspended keys and keys of suspended accounts can read it
too. Send the key as a bearer token or as \`x-api-key\`.`

const settled = {
  id: callExample.id,
  key_id: callExample.key_id,
  model: callExample.model,
  operation: callExample.operation,
  stream: callExample.stream,
  session_id: callExample.session_id,
  agent_id: callExample.agent_id,
  state: "settled",
  basis: "usage",
  ending: "completed",
  failure: null,
  notes: [],
  held: "0.016405",
  charge: "0.00031",
  released: "0.016095",
  overage: "0",
  usage: callExample.usage,
  estimate: null,
  unread: [],
  unexplained_tokens: 0,
  prices: callExample.prices,
  lines: callExample.lines,
  held_at: callExample.started_at,
  ttft_ms: 380,
  duration_ms: 2417,
  settled_at: callExample.settled_at,
} satisfies Receipt

const open = {
  ...settled,
  state: "open",
  basis: "none",
  ending: null,
  charge: null,
  released: null,
  overage: null,
  usage: null,
  lines: [],
  ttft_ms: null,
  duration_ms: null,
  settled_at: null,
} satisfies Receipt

const left = {
  ...settled,
  basis: "estimate",
  ending: "client_left",
  failure: "client_left",
  charge: "0.0001525",
  released: "0.0162525",
  usage: { prompt_tokens: 10, cached_tokens: 0, completion_tokens: 75 },
  estimate: { output_bytes: 300, prompt_bytes: 40, bytes_per_token: 4 },
  lines: [
    { kind: "input", count: 10, price: "0.25", cost: "0.0000025" },
    { kind: "output", count: 75, price: "2", cost: "0.00015" },
  ],
} satisfies Receipt

export const getReceipt = {
  params: pathId("The call's id: the `x-request-id` of its response."),
  query: query({}),
  response: {
    200: answer("The receipt. While the call is open, it shows the hold and no charge.", Receipt, {
      Settled: settled,
      Open: open,
      "The client disconnected": left,
    }),
  },
  detail: operation({
    operationId: "getReceipt",
    tag: "Receipts",
    summary: "Get the receipt of a call",
    description: `Shows what a call held, what it was charged, on what basis and at which prices, and what was released. The response is a 404 if the
call does not exist, belongs to another account, or held nothing, such as a refused request.

${whose}`,
    credentials: ["apiKey", "xApiKey"],
    errors: [
      ...errors,
      NO_CALL,
      { code: "archived", message: "The calls of 2020-01 are archived. Ask the operator." },
    ],
  }),
}

export const getOwnAccount = {
  query: query({}),
  response: {
    200: answer("The account and the key.", OwnAccount, {
      Account: {
        id: accountExample.id,
        name: accountExample.name,
        balance: accountExample.balance,
        held: accountExample.held,
        available: accountExample.available,
        suspended: false,
        key: {
          id: keyExample.id,
          name: keyExample.name,
          prefix: keyExample.prefix,
          models: keyExample.models,
          expires_at: null,
          suspended: false,
          spending_limit: { amount: "25", per: "day" },
          spent: "3.2",
        },
      } satisfies OwnAccount,
    }),
  },
  detail: operation({
    operationId: "getOwnAccount",
    tag: "Receipts",
    summary: "Get the balance",
    description: `Shows the account that pays for the key's calls, and the limits of the key. \`available\` is what new calls can hold: the
balance minus what open calls hold.

${whose}`,
    credentials: ["apiKey", "xApiKey"],
    errors,
  }),
}

export const getOwnUsage = {
  query: UsageQuery,
  response: {
    200: answer("The usage.", UsageReport, {
      "By day": usageExample,
      "By model": {
        ...usageExample,
        by: "model",
        data: [{ group: "gpt-5-mini", name: null, ...usageExample.total }],
      },
    }),
  },
  detail: operation({
    operationId: "getOwnUsage",
    tag: "Receipts",
    summary: "Get the usage of the account",
    description: `Shows what the account's calls in a time range used and cost: by model, operation, key, session or day, and in total. A call counts at the time it
ended. A correction counts at the time it was made, with the difference from the earlier charge, which can be negative. Adjacent ranges
therefore never overlap or leave a gap, and past ranges do not change.

${whose}`,
    credentials: ["apiKey", "xApiKey"],
    errors: [
      ...errors,
      fieldFault("from", "an RFC 3339 time or a day such as 2026-11-21"),
      { code: "overloaded", message: "Too many usage queries are in progress. Retry in a few seconds." },
    ],
  }),
}

const fits = {
  model: "gpt-5-mini",
  operation: "chat",
  amount: "0.000447",
  admitted: true,
  refusal: null,
  available: "9.9707",
  remaining: "21.8",
  prompt_tokens: 187,
  max_tokens: 200,
  n: 1,
  largest_max_tokens: 128_000,
  prices: callExample.prices,
  tiers: [],
  service_tiers: [],
} satisfies QuoteBody

export const getQuote = {
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
        max_tokens: 128_000,
        largest_max_tokens: 1026,
      } satisfies QuoteBody,
      "Embeddings would be admitted": {
        ...fits,
        model: "text-embedding-3-small",
        operation: "embeddings",
        amount: "0.0000005",
        prompt_tokens: 25,
        max_tokens: 0,
        largest_max_tokens: null,
        prices: { input: "0.02", cached_input: "0.02", output: "0", per_call: "0" },
      } satisfies QuoteBody,
    }),
  },
  detail: operation({
    operationId: "getQuote",
    tag: "Receipts",
    summary: "Get a quote for a call",
    description: `Takes the body of a call and returns what the call would hold. Nothing is held or sent. \`operation\` names the operation of the body; the default is
\`chat\`. The gateway checks the body, the
key and the model as for the call, with the same errors. If the balance or the spending limit is too low, or the key or the account is suspended, the response
is a 200 with the error code that the call would get. A quote does not predict unreachable providers or a gateway at capacity.`,
    credentials: ["apiKey"],
    errors: [
      fieldFault("operation", `one of ${quotedOperations.join(", ")}`),
      "invalid_api_key",
      "model_not_allowed",
      "model_not_found",
      "request_timeout",
      "request_too_large",
      "unsupported_media_type",
      OFTEN,
      "ledger_unavailable",
    ],
  }),
}

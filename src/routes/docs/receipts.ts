import { ChatRequest } from "../../wire/chat.ts"
import { pathId, query } from "../../wire/parameter.ts"
import { QuoteBody } from "../../wire/quote.ts"
import { OwnAccount, Receipt } from "../../wire/receipt.ts"
import { UsageQuery } from "../../wire/usage-query.ts"
import { UsageReport } from "../../wire/usage-report.ts"
import { answer, type Fault, operation, shown } from "../openapi.ts"
import { accountExample, callExample, fieldFault, keyExample, NO_CALL } from "./examples.ts"
import { usageExample } from "./usage.ts"

const OFTEN: Fault = {
  code: "rate_limited",
  message: "This key has made as many requests of late as it may; try again shortly.",
}
const errors: readonly Fault[] = [
  { code: "invalid_request", message: "This address takes no query parameters." },
  "invalid_api_key",
  OFTEN,
  "ledger_unavailable",
]

const whose = `Any key of the account may read it that is neither revoked nor expired, as a bearer token or as \`x-api-key\`; a suspended one too, and
one of a suspended account.`

const settled = {
  id: callExample.id,
  key_id: callExample.key_id,
  model: callExample.model,
  stream: callExample.stream,
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
  prices: callExample.prices,
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
  ttft_ms: null,
  duration_ms: null,
  settled_at: null,
} satisfies Receipt

const left = {
  ...settled,
  basis: "estimate",
  ending: "client_left",
  failure: "client_left",
  charge: "0.00015",
  released: "0.016255",
  usage: { prompt_tokens: 0, cached_tokens: 0, completion_tokens: 75 },
} satisfies Receipt

export const getReceipt = {
  params: pathId("The call's id: the `x-request-id` of its answer."),
  query: query({}),
  response: {
    200: answer("The receipt; while the call is open, of what it holds.", Receipt, {
      Settled: settled,
      Open: open,
      "The client left": left,
    }),
  },
  detail: operation({
    operationId: "getReceipt",
    tag: "Receipts",
    summary: "Read the receipt of a call",
    description: `What a call held, what it was charged, on what basis and at which prices, and what was given back. A call of another account is
a 404, like one that there is not; so is a request that held nothing, such as a refused one.

${whose}`,
    credentials: ["apiKey", "xApiKey"],
    errors: [...errors, NO_CALL],
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
    summary: "Read the balance",
    description: `The account that pays for this key's calls, and what the key itself may do. \`available\` is what new calls can still hold: the
balance less what open calls hold.

${whose}`,
    credentials: ["apiKey", "xApiKey"],
    errors,
  }),
}

export const getOwnUsage = {
  query: UsageQuery,
  response: {
    200: answer("The sums.", UsageReport, {
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
    summary: "Sum the usage of the account",
    description: `What the account's calls of a time used and cost, by model, key or day, and as a whole. A call counts when it has ended, at the
moment of its end; a correction counts at its own moment, with the difference to what was charged before, which may be below 0. So ranges that
meet share nothing and miss nothing, and a range that is over does not change.

${whose}`,
    credentials: ["apiKey", "xApiKey"],
    errors: [
      ...errors,
      fieldFault("from", "an RFC 3339 time or a day such as 2026-11-21"),
      { code: "overloaded", message: "As many sums of usage as may wait are waiting; try again shortly." },
    ],
  }),
}

const fits = {
  model: "gpt-5-mini",
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
} satisfies QuoteBody

export const getQuote = {
  parse: "none" as const,
  body: shown(ChatRequest, {
    Call: { model: "gpt-5-mini", messages: [{ role: "user", content: "Say hello." }], max_tokens: 200 },
  }),
  response: {
    200: answer("What would be held, and whether it would be.", QuoteBody, {
      "It would be held": fits,
      "The balance would not do": {
        ...fits,
        amount: "0.256047",
        admitted: false,
        refusal: "insufficient_balance",
        available: "0.0021",
        remaining: null,
        max_tokens: 128_000,
        largest_max_tokens: 1026,
      } satisfies QuoteBody,
    }),
  },
  detail: operation({
    operationId: "getQuote",
    tag: "Receipts",
    summary: "Ask what a call would hold",
    description: `Takes the body of a chat completion, holds nothing and sends nothing. The body, the key and the model are checked as for the call,
with the same errors; that the money would not do, or that the key or the account is suspended, is an answer here, with the error code
that the call would get. A provider that cannot be reached and a gateway at its limits are not foreseen.`,
    credentials: ["apiKey"],
    errors: [
      fieldFault("messages", "an array of 1 to 4096 messages"),
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

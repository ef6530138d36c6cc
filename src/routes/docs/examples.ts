import type { AccountBody, CallBody, CreatedKeyBody, CreditBody } from "../../wire/admin.ts"
import { type Fault, REQUEST_ID } from "../openapi.ts"

/** What the API reference says more than once: errors and examples. */

/** What every operation of `/admin` can answer. */
export const NO_TOKEN: Fault = {
  code: "invalid_api_key",
  message: "The admin token is missing or incorrect. Send it as Authorization: Bearer <token>.",
}
const NO_BOOKS = {
  code: "ledger_unavailable",
  message:
    "The database did not respond. If the request was a change, it may have been applied: check before you repeat it.",
} as const
export const ERRORS: readonly Fault[] = [NO_TOKEN, NO_BOOKS]

/** What an operation answers that makes something under an id: it may be repeated with that. */
export function unknownOutcome(id: string): Fault {
  return { ...NO_BOOKS, fields: { id } }
}

/** What an operation that takes a body can answer besides. */
export const BODY_ERRORS: readonly Fault[] = [
  "invalid_request",
  "request_timeout",
  "request_too_large",
  "unsupported_media_type",
]

/** What a list says to a parameter it does not know. */
export const PAGE_FAULT: Fault = {
  code: "invalid_request",
  message: "Unknown query parameter. This endpoint accepts: limit, after.",
}

export const NO_ACCOUNT: Fault = { code: "not_found", message: "No account has this id." }
export const NO_KEY: Fault = { code: "not_found", message: "No key has this id." }
export const NO_CALL: Fault = { code: "not_found", message: "No call has this id." }

/** What an operation says to a field of its body that is not as it should be. */
export function fieldFault(param: string, expected: string): Fault {
  return { code: "invalid_request", param, message: `\`${param}\`: expected ${expected}.` }
}

export const accountExample: AccountBody = {
  id: "019f8b1c-0000-7000-8b7a-5d1f3c9e2a40",
  name: "Acme",
  balance: "9.9871",
  held: "0.0164",
  available: "9.9707",
  margin: "1",
  suspended: false,
  created_at: "2026-11-21T09:30:00.000Z",
}

export const creditExample: CreditBody = {
  id: "019f8b1c-1111-7000-a3f0-7c2b9d8e6f51",
  amount: "10",
  reason: "Invoice 2026-118",
  created_at: "2026-11-21T09:31:00.000Z",
}

export const keyExample: Omit<CreatedKeyBody, "key"> = {
  id: "019f8b1c-2222-7000-9d4e-1a6b8c0f7e32",
  name: "production",
  prefix: "tg_live_8Fq2",
  models: ["gpt-5-mini"],
  expires_at: null,
  suspended: false,
  spending_limit: { amount: "25", per: "day" },
  created_at: "2026-11-21T09:32:00.000Z",
}

export const callExample: CallBody = {
  id: REQUEST_ID,
  account_id: accountExample.id,
  key_id: keyExample.id,
  model: "gpt-5-mini",
  operation: "chat",
  family: "chat",
  upstream: "openai",
  stream: true,
  session_id: null,
  agent_id: null,
  state: "settled",
  basis: "usage",
  ending: "completed",
  failure: null,
  notes: [],
  reserved: "0.016405",
  charge: "0.00031",
  overage: "0",
  cost: "0.00031",
  margin: "1",
  usage: { prompt_tokens: 40, cached_tokens: 0, completion_tokens: 150 },
  prices: { input: "0.25", cached_input: "0.025", output: "2", per_call: "0" },
  lines: [
    { kind: "input", count: 40, price: "0.25", cost: "0.00001" },
    { kind: "output", count: 150, price: "2", cost: "0.0003" },
  ],
  started_at: "2026-11-21T09:33:00.000Z",
  settled_at: "2026-11-21T09:33:02.417Z",
  ttft_ms: 380,
  duration_ms: 2417,
}

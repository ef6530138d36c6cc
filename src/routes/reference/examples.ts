import { Type } from "@sinclair/typebox"
import { catalogue } from "../../errors.ts"
import { countedKinds, recordOf } from "../../kinds.ts"
import type { AccountBody, CallBody, CreatedKeyBody, KeyBody } from "../../wire/admin.ts"
import type { BudgetBody, OwnBudget } from "../../wire/budget-bodies.ts"
import type { GrantBody } from "../../wire/credit-bodies.ts"
import type { CustomerPriceBody } from "../../wire/customer-prices.ts"
import { pathId } from "../../wire/parameter.ts"
import type { OperatorUsageReport, UsageReport } from "../../wire/usage-report.ts"
import {
  described,
  type ErrorExample,
  notFound,
  REQUEST_ID,
  type RouteDescription,
  type Schemas,
} from "./operation.ts"

/** Errors and examples that several operations of the API reference share. */

/** Errors of every operation of `/admin`. */
export const NO_TOKEN = {
  code: "invalid_api_key",
  message: "The admin token is missing or incorrect. Send it as Authorization: Bearer <token>.",
} as const satisfies ErrorExample
const LEDGER_UNAVAILABLE = {
  code: "ledger_unavailable",
  message:
    "The database did not respond. If the request was a change, it may have been applied: check before you repeat it.",
} as const

/** A route of `/admin`, which needs the admin token. */
export function ofOperators<Route extends RouteDescription & Schemas>(route: Route) {
  const errors = [NO_TOKEN, LEDGER_UNAVAILABLE, ...(route.errors ?? [])]
  return described({ credentials: ["adminToken"], ...route, errors })
}

type Untagged = Omit<RouteDescription, "tag"> & Schemas

export const ofAccounts = <Route extends Untagged>(route: Route) => ofOperators({ tag: "Accounts", ...route })
export const ofLedger = <Route extends Untagged>(route: Route) => ofOperators({ tag: "Ledger", ...route })

export const OFTEN: ErrorExample = {
  code: "rate_limited",
  message: "This key has reached its rate limit. Wait for the time in the retry-after header, then retry.",
}
export const READER_ERRORS: readonly ErrorExample[] = ["invalid_api_key", OFTEN, "ledger_unavailable"]

/** A route of a key's holder, which any key of the account can use. */
export function ofHolders<Route extends Untagged>(route: Route) {
  const errors = [...READER_ERRORS, "overloaded" as const, ...(route.errors ?? [])]
  return described({ credentials: ["apiKey", "xApiKey"], tag: "Receipts", ...route, errors })
}

export const NO_ACCOUNT = notFound("No account has this id.")
export const NO_KEY = notFound("No key has this id.")
export const NO_BUDGET = notFound("No budget has this id.")
export const NO_CUSTOMER_PRICE = notFound("No customer price has this id.")
export const NO_PRICE_LIST = notFound("No price list has this id.")
export const NO_ASSIGNMENT = notFound("No assignment of a price list has this id.")
export const NO_CREDIT = notFound("No credit has this id.")
export const NO_CALL = notFound("No call has this id.")

const missing = {
  account: NO_ACCOUNT,
  key: NO_KEY,
  budget: NO_BUDGET,
  price: NO_CUSTOMER_PRICE,
  "price list": NO_PRICE_LIST,
  assignment: NO_ASSIGNMENT,
  credit: NO_CREDIT,
}

/** A route with the id of a resource in its path, and the error if there is none. */
export function ofOne<Route extends Untagged>(what: keyof typeof missing, route: Route) {
  return ofAccounts({ params: pathId(`The ${what}'s id.`), ...route, errors: [missing[what]] })
}

export const accountExample: AccountBody = {
  id: "019f8b1c-0000-7000-8b7a-5d1f3c9e2a40",
  name: "Acme",
  external_id: null,
  balance: "9.9871",
  held: "0.0164",
  available: "9.9707",
  credit_limit: "0",
  low_balance: null,
  may_manage_keys: false,
  price_multiplier: "1",
  suspended: false,
  created_at: "2026-11-21T09:30:00.000Z",
}

export const creditExample: GrantBody = {
  id: "019f8b1c-1111-7000-a3f0-7c2b9d8e6f51",
  amount: "10",
  kind: "payment",
  priority: 50,
  effective_at: null,
  expires_at: null,
  source_ref: null,
  call_id: null,
  left: "10",
  expired: "0",
  voided: "0",
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
  labels: {},
  required_tags: [],
  client_tags: "accepted",
  group: "acme/search",
  created_at: "2026-11-21T09:32:00.000Z",
  previous_until: null,
}

export const ownBudgetExample: OwnBudget = {
  id: "019f8b1c-6666-7000-9d4e-1a6b8c0f7e32",
  name: "Search team",
  selector: "group",
  selected: "acme/search",
  unit: "usd",
  per: "month",
  timezone: "Europe/Berlin",
  mode: "hard",
  limit: "500",
  spent: "421.7",
  held: "0.25",
  left: "78.05",
  resets_at: "2026-11-30T23:00:00.000Z",
}

export const budgetExample: BudgetBody = {
  ...ownBudgetExample,
  account_id: accountExample.id,
  each: false,
  amount: "500",
  raise: null,
  thresholds: [80, 100],
  since: "2026-10-31T23:00:00.000Z",
  created_at: "2026-11-21T09:32:00.000Z",
}

export const customerPriceExample: CustomerPriceBody = {
  id: "019f8b1c-7777-7000-9d4e-1a6b8c0f7e32",
  account_id: accountExample.id,
  model: "gpt-5-mini",
  price_multiplier: null,
  prices: { input: "0.2", output: "1.6" },
  from: "2027-01-01T00:00:00.000Z",
  until: "2028-01-01T00:00:00.000Z",
  price_list_id: null,
  assignment_id: null,
  state: "scheduled",
  set_by: "Ann",
  reason: "Contract 118",
  created_at: "2026-11-21T09:33:00.000Z",
  ended: null,
}

export const keyListed: KeyBody = { ...keyExample, spent: "3.2", revoked_at: null, last_used_at: null }

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
  tags: {},
  end_user: null,
  end_user_id: null,
  agent_id: null,
  state: "settled",
  basis: "usage",
  ending: "completed",
  failure: null,
  notes: [],
  held: "0.016405",
  charge: "0.00031",
  overage: "0",
  cost: "0.00031",
  price_multiplier: "1",
  customer_price_id: null,
  list_prices: null,
  usage: { prompt_tokens: 40, cached_tokens: 0, completion_tokens: 150 },
  estimate: null,
  unread: [],
  unexplained_tokens: 0,
  provider_cost: null,
  upstream_key: null,
  provider_request_id: "req_7f3a9c1e",
  attempts: [],
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

const NO_BUCKETS = recordOf(countedKinds, () => 0)

const day = {
  calls: 412,
  prompt_tokens: 61_800,
  cached_tokens: 10_240,
  completion_tokens: 90_640,
  charge: "0.194426",
  overage: "0",
  buckets: { ...NO_BUCKETS, reasoning: 41_210 },
}

export const usageExample = {
  from: "2026-11-20T00:00:00.000Z",
  to: "2026-11-22T00:00:00.000Z",
  by: "day",
  data: [
    { group: "2026-11-20", name: null, ...day },
    { group: "2026-11-21", name: null, ...day },
  ],
  left_out: 0,
  total: {
    calls: 824,
    prompt_tokens: 123_600,
    cached_tokens: 20_480,
    completion_tokens: 181_280,
    charge: "0.388852",
    overage: "0",
    buckets: { ...NO_BUCKETS, reasoning: 82_420 },
  },
} satisfies UsageReport

/** The same for an account with a price multiplier of 1. */
const operatorDay = { ...day, abandoned: 0, cost: day.charge, profit: "0", provider_cost: "0" }

export const operatorUsageExample = {
  ...usageExample,
  data: usageExample.data.map((sums) => ({ ...sums, ...operatorDay })),
  total: {
    ...usageExample.total,
    abandoned: 0,
    cost: usageExample.total.charge,
    profit: "0",
    provider_cost: "0",
  },
} satisfies OperatorUsageReport

/** The headers of every operation that calls a model (D63). */

export const callHeaders = Type.Object({
  "Idempotency-Key": Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description:
        "An id that the client creates for this call, such as a UUID, so that it can safely retry the call.",
    }),
  ),
})

/** The amounts in the example of a 402. */
interface Lacking {
  readonly needed: string
  readonly available: string
  readonly remaining: string
  /** The field that limits the output, and the largest value that fits. Null for operations without output. */
  readonly fitting: { readonly limit_field: string; readonly max_tokens: number } | null
}

/** The translation of a provider's 404 (D17). */
export const PROVIDER_NOT_FOUND: ErrorExample = {
  code: "not_found",
  message:
    "The provider did not find what this request names. Ask the operator to check the model's configuration.",
}

/** The errors of a call whose tags break a rule (D94). */
export const TAG_ERRORS: readonly ErrorExample[] = [
  {
    code: "tag_not_declared",
    message: `${catalogue.tag_not_declared.message} Unknown: taem.`,
    param: "x-tollgate-tags",
    fields: { tag: "taem" },
  },
  {
    code: "tag_required",
    message: `${catalogue.tag_required.message} Missing: team.`,
    param: "x-tollgate-tags",
    fields: { tag: "team" },
  },
]

export function callErrors({ needed, available, remaining, fitting }: Lacking): readonly ErrorExample[] {
  const advice = fitting === null ? "" : `, or set ${fitting.limit_field} to at most ${fitting.max_tokens}`
  const fields = fitting === null ? {} : { max_tokens: fitting.max_tokens }
  return [
    {
      code: "idempotency_key_used",
      message: `This Idempotency-Key was already used for this call. The call was not made or charged again. The earlier call is ${REQUEST_ID}: GET /v1/calls/${REQUEST_ID} returns its receipt.`,
      fields: { call: REQUEST_ID },
    },
    {
      code: "idempotency_key_reused",
      message: `This Idempotency-Key was already used with a different request. Use a new key for each call. The earlier call is ${REQUEST_ID}: GET /v1/calls/${REQUEST_ID} returns its receipt.`,
      fields: { call: REQUEST_ID },
    },
    ...TAG_ERRORS,
    "invalid_api_key",
    {
      code: "insufficient_balance",
      message: `This call needs a hold of ${needed} USD, but only ${available} USD is available. Add credit${advice}.`,
      fields: { needed, available, ...fields },
    },
    {
      code: "spending_limit_reached",
      message: `This call needs a hold of ${needed} USD, but the key can spend only ${remaining} USD more this day. Wait for the next day${advice}.`,
      fields: { needed, remaining, ...fields },
    },
    {
      code: "budget_reached",
      message: `This call needs ${needed} USD, but the budget "Search team" of ${remaining} USD in total has only ${remaining} USD left: 0 USD are spent, and open calls hold 0 USD. The call needs more than the whole budget, so waiting does not help${advice}.`,
      fields: {
        budget: {
          id: ownBudgetExample.id,
          name: "Search team",
          selector: "all",
          selected: null,
          unit: "usd",
          per: "total",
        },
        limit: remaining,
        spent: "0",
        held: "0",
        needed,
        remaining,
        resets_at: null,
        retryable: false,
        ...fields,
      },
    },
    "account_suspended",
    "key_suspended",
    "model_not_allowed",
    "model_not_found",
    PROVIDER_NOT_FOUND,
    "rate_limited",
    "usage_missing",
    "usage_invalid",
    "response_too_large",
    "upstream_error",
    "upstream_unavailable",
    "overloaded",
    "ledger_unavailable",
    "upstream_timeout",
  ]
}

import { Type } from "@sinclair/typebox"
import { catalogue } from "../../errors.ts"
import { pathId } from "../../wire/parameter.ts"
import { EXAMPLE_ID } from "./example.ts"
import { described, type ErrorExample, notFound, type RouteDescription, type Schemas } from "./operation.ts"

/** Kinds of routes, and the errors that several of them share. */

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

export const ofPeople = <Route extends Untagged>(route: Route) => ofOperators({ tag: "Operators", ...route })
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
export const NO_SINK = notFound("No sink has this id.")
export const NO_OPERATOR = notFound("No operator has this id, or its token is revoked.")

/** The section of each kind of resource in the reference, and the error for an unknown id. */
const resources = {
  account: ["Accounts", NO_ACCOUNT],
  key: ["Accounts", NO_KEY],
  budget: ["Accounts", NO_BUDGET],
  price: ["Accounts", NO_CUSTOMER_PRICE],
  "price list": ["Accounts", NO_PRICE_LIST],
  assignment: ["Accounts", NO_ASSIGNMENT],
  credit: ["Accounts", NO_CREDIT],
  sink: ["Ledger", NO_SINK],
  operator: ["Operators", NO_OPERATOR],
} as const

/** A route with the id of a resource in its path, and the error for an unknown id. */
export function ofOne<Route extends Untagged>(what: keyof typeof resources, route: Route) {
  const [tag, missing] = resources[what]
  const errors = [missing, ...(route.errors ?? [])]
  return ofOperators({ tag, params: pathId(`The ${what}'s id.`), ...route, errors })
}

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
      message: `This Idempotency-Key was already used for this call. The call was not made or charged again. The earlier call is ${EXAMPLE_ID}: GET /v1/calls/${EXAMPLE_ID} returns its receipt.`,
      fields: { call: EXAMPLE_ID },
    },
    {
      code: "idempotency_key_reused",
      message: `This Idempotency-Key was already used with a different request. Use a new key for each call. The earlier call is ${EXAMPLE_ID}: GET /v1/calls/${EXAMPLE_ID} returns its receipt.`,
      fields: { call: EXAMPLE_ID },
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
          id: EXAMPLE_ID,
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

/** A route that calls a model. Its handler reads the body itself, because the key is checked first (D30). */
export function ofCalls<Route extends Untagged>(route: Route) {
  return described({
    parse: "none" as const,
    tag: "Calls",
    credentials: ["apiKey"],
    headers: callHeaders,
    ...route,
  })
}

import { type Static, Type } from "@sinclair/typebox"
import { AccountBody, CallBody, KeyBody } from "./admin.ts"
import { OwnBudget } from "./budget-bodies.ts"
import { nullable, pick } from "./field.ts"

/** A client's view of its own account (D47). */

const call = CallBody.properties
const account = AccountBody.properties
const key = KeyBody.properties

/** A call as shown to the account that pays for it: without the upstream. */
export const Receipt = Type.Object({
  ...pick(call, "id", "key_id", "model", "operation", "stream", "session_id", "agent_id", "tags", "end_user"),
  ...pick(call, "end_user_id", "state", "basis", "ending", "failure", "notes", "held", "charge"),
  released: nullable(
    call.held,
    "The part of the hold that was released: `held` + `overage` = `charge` + `released`.",
  ),
  ...pick(call, "overage", "refunded", "usage"),
  price_multiplier: Type.Optional(call.price_multiplier),
  ...pick(call, "estimate", "unread", "unexplained_tokens", "prices"),
  lines: Type.Array(call.lines.items, {
    description:
      "What the charge consists of: the sum of the costs (times `price_multiplier`, where that is shown), rounded up once to a billionth of a USD.",
  }),
  held_at: call.started_at,
  ...pick(call, "ttft_ms", "duration_ms", "settled_at"),
})
export type Receipt = Static<typeof Receipt>

export const OwnAccount = Type.Object({
  ...pick(account, "id", "name", "balance", "held", "available", "credit_limit"),
  grants: Type.Array(Type.Object({ remaining: account.balance, expires_at: key.expires_at }), {
    description:
      "The credits of which something is left, in the order in which calls spend them. Empty for an account whose credits neither expire nor have a priority.",
  }),
  ...pick(account, "suspended", "may_manage_keys"),
  key: Type.Object(
    {
      ...pick(key, "id", "name", "prefix", "models", "expires_at", "suspended", "spending_limit", "spent"),
      ...pick(key, "group", "previous_until"),
    },
    { description: "The key that made this request." },
  ),
  budgets: Type.Array(OwnBudget, {
    description:
      "The budgets that calls of the key count in: those of the account, the key, its groups, and of models.",
  }),
})
export type OwnAccount = Static<typeof OwnAccount>

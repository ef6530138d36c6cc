import { type Static, Type } from "@sinclair/typebox"
import { AccountBody, CallBody, KeyBody } from "./admin.ts"
import { OwnBudget } from "./budget-bodies.ts"

/** A client's view of its own account (D47). */

const call = CallBody.properties
const account = AccountBody.properties
const key = KeyBody.properties

/** A call as shown to the account that pays for it: without the upstream. */
export const Receipt = Type.Object({
  id: call.id,
  key_id: call.key_id,
  model: call.model,
  operation: call.operation,
  stream: call.stream,
  session_id: call.session_id,
  agent_id: call.agent_id,
  tags: call.tags,
  end_user: call.end_user,
  end_user_id: call.end_user_id,
  state: call.state,
  basis: call.basis,
  ending: call.ending,
  failure: call.failure,
  notes: call.notes,
  held: call.held,
  charge: call.charge,
  released: Type.Union([call.held, Type.Null()], {
    description: "The part of the hold that was released: `held` + `overage` = `charge` + `released`.",
  }),
  overage: call.overage,
  refunded: call.refunded,
  usage: call.usage,
  price_multiplier: Type.Optional(call.price_multiplier),
  estimate: call.estimate,
  unread: call.unread,
  unexplained_tokens: call.unexplained_tokens,
  prices: call.prices,
  lines: Type.Array(call.lines.items, {
    description:
      "What the charge consists of: the sum of the costs (times `price_multiplier`, where that is shown), rounded up once to a billionth of a USD.",
  }),
  held_at: call.started_at,
  ttft_ms: call.ttft_ms,
  duration_ms: call.duration_ms,
  settled_at: call.settled_at,
})
export type Receipt = Static<typeof Receipt>

export const OwnAccount = Type.Object({
  id: account.id,
  name: account.name,
  balance: account.balance,
  held: account.held,
  available: account.available,
  credit_limit: account.credit_limit,
  grants: Type.Array(Type.Object({ remaining: account.balance, expires_at: key.expires_at }), {
    description:
      "The credits of which something is left, in the order in which calls spend them. Empty for an account whose credits neither expire nor have a priority.",
  }),
  suspended: account.suspended,
  may_manage_keys: account.may_manage_keys,
  key: Type.Object(
    {
      id: key.id,
      name: key.name,
      prefix: key.prefix,
      models: key.models,
      expires_at: key.expires_at,
      suspended: key.suspended,
      spending_limit: key.spending_limit,
      spent: key.spent,
      group: key.group,
      previous_until: key.previous_until,
    },
    { description: "The key that made this request." },
  ),
  budgets: Type.Array(OwnBudget, {
    description:
      "The budgets that calls of the key count in: those of the account, the key, its groups, and of models.",
  }),
})
export type OwnAccount = Static<typeof OwnAccount>

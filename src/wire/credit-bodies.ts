import { type Static, type StaticDecode, Type } from "@sinclair/typebox"
import { parseUsd, printUsd } from "../money.ts"
import {
  AccountBody,
  EXPIRY,
  Id,
  line,
  Money,
  OwnReason,
  ownId,
  parsed,
  requestBody,
  SIGNED_FORM,
  TIME,
  Time,
  timeField,
  usd,
} from "./admin.ts"
import { creditKinds, MAX_PRIORITY, recordedKinds } from "./credits.ts"
import { EXPECTED, invalidField } from "./fault.ts"
import { choice, nullable, oneOf, optional, resource, titled } from "./field.ts"

/** Credits of an account, which are grants (D95): requests and answers, each schema with its type beside it. */

export const CreditBody = resource({
  id: titled("ID", Id),
  amount: Money,
  kind: nullable(choice(recordedKinds)),
  priority: titled("Priority", Type.Integer(), "The draw-down order: calls spend the smallest first."),
  effective_at: titled("Effective", nullable(Time)),
  expires_at: titled("Expires", nullable(Time)),
  source_ref: titled("Reference", nullable(Type.String())),
  call_id: titled("Call", nullable({ ...Id, description: "The call that it refunds." })),
  reason: nullable(Type.String()),
  created_at: titled("Created", Time),
})
export type CreditBody = Static<typeof CreditBody>

/** A credit, and what has become of it. */
export const GrantBody = Type.Composite([
  CreditBody,
  resource({
    left: usd(
      "What is left of the amount; the rest was spent, has expired or was voided. Before `effective_at`, it is not in the balance.",
    ),
    expired: Money,
    voided: Money,
  }),
])
export type GrantBody = Static<typeof GrantBody>

export const CreditedBody = Type.Composite([GrantBody, Type.Object({ account: AccountBody })])
export type CreditedBody = Static<typeof CreditedBody>

export const NewCredit = requestBody({
  id: ownId("Makes the request safe to retry: the same id never moves money twice."),
  amount: parsed(
    "amount",
    "USD as a decimal string other than 0, with at most 9 digits before and 9 after the point",
    {
      pattern: SIGNED_FORM,
      description: "USD as a decimal string. A negative amount reduces the balance.",
    },
    (text) => parseUsd(text) || null,
    printUsd,
  ),
  reason: OwnReason,
  ...optional({
    kind: oneOf(
      creditKinds,
      "The default is `payment`; `refund` with a `call_id`, and `correction` for a negative amount.",
      "payment, promotion, plan, refund or correction",
    ),
    priority: Type.Integer({
      minimum: 0,
      maximum: MAX_PRIORITY,
      description:
        "The draw-down order: calls spend the credit with the smallest priority first. The default is 50.",
      [EXPECTED]: "an integer from 0 to 100",
    }),
    effective_at: timeField(
      "effective_at",
      "From when on the amount is in the balance, as an RFC 3339 time. The default is now.",
      TIME,
    ),
    expires_at: timeField("expires_at", "When what is left expires, as an RFC 3339 time.", EXPIRY),
    source_ref: line(
      200,
      "Your reference of a payment. A second credit with the same reference is not made, so a webhook can be repeated.",
    ),
    call_id: Type.String({
      format: "uuid",
      description:
        "The call that is refunded. All refunds of a call together are at most its charge. The kind is `refund`.",
      [EXPECTED]: "a UUID",
    }),
  }),
})

export const VoidedCredit = requestBody({ reason: OwnReason })

/** Throws `invalid_request` for fields that a negative amount or a credit of this kind cannot have, or for no time. */
export function checkGrant({
  amount,
  kind,
  call_id,
  effective_at,
  expires_at,
  priority,
}: StaticDecode<typeof NewCredit>): void {
  const given = { effective_at, expires_at, priority, call_id }
  for (const [name, value] of Object.entries(given))
    if (amount < 0n && value !== undefined) throw invalidField(name, "no such field with a negative amount")
  if (call_id !== undefined && kind !== undefined && kind !== "refund")
    throw invalidField("kind", "refund for a credit with a call_id")
  if (effective_at !== undefined && expires_at !== undefined && expires_at <= effective_at)
    throw invalidField("expires_at", `${TIME} after effective_at`)
}

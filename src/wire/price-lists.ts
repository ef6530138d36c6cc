import { type Static, Type } from "@sinclair/typebox"
import { Count, Id, line, OwnReason, ownId, PriceMultiplier, requestBody, Time } from "./admin.ts"
import { CustomerPrices, priceFields, spanFields } from "./customer-prices.ts"
import { EXPECTED } from "./fault.ts"
import { choice, nullable, resource, titled } from "./field.ts"

/** Price lists (D110): requests and answers. */

export const PriceListBody = resource({
  id: titled("ID", Id),
  name: Type.String({ examples: ["Partners"] }),
  version: Type.Integer({ description: "1 for a new list, and 1 more with each change." }),
  prices: Type.Array(
    Type.Object({
      model: nullable(Type.String({ description: "Null for all models." })),
      price_multiplier: nullable(PriceMultiplier),
      prices: nullable(CustomerPrices),
    }),
  ),
  set_by: Type.String(),
  reason: nullable(Type.String()),
  changed_at: titled("Changed", Time),
})
export type PriceListBody = Static<typeof PriceListBody>

export const AssignedPriceList = Type.Composite([
  PriceListBody,
  Type.Object({
    assigned: titled("Assigned", Count, "How often it is assigned, now or later."),
    pending: titled(
      "Pending",
      Count,
      "How many of them do not have its last change yet. Send the change again with the same `id`.",
    ),
  }),
])
export type AssignedPriceList = Static<typeof AssignedPriceList>

export const AssignmentBody = resource({
  id: titled("ID", Id),
  price_list_id: Id,
  account_id: titled("Account", Id),
  from: Time,
  until: nullable({ ...Time, description: "The first moment at which it no longer holds." }),
  state: choice(["scheduled", "current", "over"]),
  set_by: Type.String(),
  reason: nullable(Type.String()),
  created_at: titled("Created", Time),
})
export type AssignmentBody = Static<typeof AssignmentBody>

const prices = Type.Array(requestBody(priceFields), {
  minItems: 1,
  maxItems: 200,
  description: "For each model, and for all models, one price at most.",
  [EXPECTED]: "an array of 1 to 200 prices",
})

export const NewPriceList = requestBody({
  id: ownId("Makes the request safe to retry: the same id never makes two lists."),
  name: line(100, "The name, which no other list has."),
  prices,
  reason: OwnReason,
})
export const PriceListChange = requestBody({
  id: ownId("The id of the change. The same id again changes nothing more."),
  prices,
  reason: OwnReason,
})
export const NewAssignment = requestBody({
  id: ownId("Makes the request safe to retry: the same id never assigns twice."),
  account_id: { ...Id, [EXPECTED]: "the id of an account" },
  ...spanFields,
})

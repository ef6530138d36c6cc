import { type Static, type StaticDecode, Type } from "@sinclair/typebox"
import { feeBuckets, recordOf, tokenBuckets, unitOf } from "../kinds.ts"
import {
  EXPIRY,
  Id,
  line,
  OwnMultiplier,
  OwnReason,
  ownId,
  PriceMultiplier,
  requestBody,
  Time,
  timeField,
} from "./admin.ts"
import { EXPECTED } from "./fault.ts"
import { choice, nullable, optional, resource, text, titled } from "./field.ts"

/** Customer prices (D100): requests and answers. */

const customerPriceStates = ["scheduled", "current", "replaced", "over"] as const
export type CustomerPriceState = (typeof customerPriceStates)[number]

/** Origins of a customer price: the account itself, or a price list (D110). */
export const priceOrigins = ["account", "price_list"] as const
/** Accounts with prices of each origin that hold now. */
export type PriceCounts = Readonly<Record<(typeof priceOrigins)[number], number>>

const price = (description: string) =>
  Type.String({
    pattern: "^\\d{1,6}(?:\\.\\d{1,6})?$",
    description,
    [EXPECTED]: "USD per 1M tokens as a decimal string with at most 6 decimals",
  })
const fee = (unit: string) =>
  Type.String({
    pattern: "^\\d{1,6}(?:\\.\\d{1,9})?$",
    description: `USD per ${unit}.`,
    [EXPECTED]: `USD per ${unit} as a decimal string with at most 9 decimals`,
  })
const PER_1M = "USD per 1M tokens."

export const CustomerPrices = Type.Object(
  optional({
    input: price(PER_1M),
    cached_input: price(
      `${PER_1M} Follows \`input\` if both cost the same in the configuration and this is left out.`,
    ),
    output: price(PER_1M),
    per_call: fee("call"),
    ...recordOf(tokenBuckets, () => price(PER_1M)),
    ...recordOf(feeBuckets, (bucket) => fee(unitOf(bucket))),
    tool_run: Type.Record(Type.String(), fee("run"), {
      description: "Of the provider's tools, by the provider's names.",
    }),
  }),
  {
    additionalProperties: false,
    description:
      "Prices of some kinds of tokens and fees, in the form of the configuration. A kind that is left out keeps the price of the configuration.",
    [EXPECTED]: "an object with prices, such as { input, output }",
  },
)

export const CustomerPriceBody = resource({
  id: titled("ID", Id),
  account_id: Id,
  model: nullable(text("Null for all models.")),
  price_multiplier: nullable(PriceMultiplier),
  prices: nullable(CustomerPrices),
  from: Time,
  until: nullable({ ...Time, description: "The first moment at which it no longer holds." }),
  state: titled(
    "State",
    choice(customerPriceStates),
    "`replaced`: another price for the same model holds in its place: one that was set later, or the own one of the account.",
  ),
  price_list_id: titled(
    "Price list",
    nullable({
      ...Id,
      description: "The price list that it is of; null for a price of the account itself.",
    }),
  ),
  assignment_id: nullable({ ...Id, description: "The assignment of the price list to the account." }),
  set_by: Type.String(),
  reason: nullable(Type.String()),
  created_at: titled("Created", Time),
  ended: nullable(
    Type.Object(
      { at: Time, by: Type.String(), reason: nullable(Type.String()), made_at: Time },
      {
        description: "When an operator ended it, and why.",
      },
    ),
  ),
})
export type CustomerPriceBody = Static<typeof CustomerPriceBody>

export const priceFields = optional({
  model: line(256, "The model, as clients name it. Left out: all models; only for a multiplier."),
  price_multiplier: OwnMultiplier,
  prices: CustomerPrices,
})

export const spanFields = {
  ...optional({
    from: timeField("from", "The first moment at which it holds. Default: now.", EXPIRY),
    until: timeField(
      "until",
      "The first moment at which it no longer holds. Default: it holds until it is ended.",
      EXPIRY,
    ),
  }),
  reason: OwnReason,
}

export const NewCustomerPrice = requestBody({
  id: ownId("Makes the request safe to retry: the same id never sets two prices."),
  ...priceFields,
  ...spanFields,
})
export type NewCustomerPrice = StaticDecode<typeof NewCustomerPrice>

export const CustomerPriceEnd = requestBody({
  at: Type.Optional(timeField("at", "When it ends. Default: now.", EXPIRY)),
  reason: OwnReason,
})

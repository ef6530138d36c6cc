import { type Static, type TProperties, type TSchema, Type } from "@sinclair/typebox"
import { type Grouping, groupings, operatorGroupings } from "./usage-query.ts"

/** What `GET /v1/usage` and `GET /admin/usage` answer (D48). */

const Time = Type.String({ format: "date-time", description: "RFC 3339, in UTC." })
/** A correction counts with its difference, so a sum may be below 0 (D48). */
const Tokens = Type.Integer()
const Money = Type.String({
  pattern: "^-?\\d+(?:\\.\\d{1,9})?$",
  description: "A USD amount as a decimal string with at most nine decimals.",
})
const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])

const sums = {
  calls: Type.Integer({ minimum: 0, description: "Calls that ended, including those without a charge." }),
  prompt_tokens: Type.Integer({ description: "Charged prompt tokens, including cached ones." }),
  cached_tokens: Tokens,
  completion_tokens: Tokens,
  charge: Money,
  overage: Type.String({
    pattern: Money.pattern ?? "",
    description: "The part of the charge that exceeds the hold.",
  }),
  buckets: Type.Object(
    {
      cache_write: Tokens,
      cache_write_1h: Tokens,
      reasoning: Tokens,
      audio_input: Tokens,
      audio_output: Tokens,
      image_input: Tokens,
      web_search: Tokens,
    },
    {
      description:
        "What was charged at a price of its own: tokens, which are in the prompt or completion tokens too, and searches.",
    },
  ),
}

const operatorSums = {
  ...sums,
  cost: Type.String({
    ...Money,
    description:
      "What the usage costs at the configured prices: the charge without the margins of the accounts.",
  }),
  profit: Type.String({ ...Money, description: "`charge` minus `cost`." }),
}

export const UsageSums = Type.Object(sums)
export type UsageSums = Static<typeof UsageSums>
export const OperatorUsageSums = Type.Object(operatorSums)
export type OperatorUsageSums = Static<typeof OperatorUsageSums>

const group = {
  group: Type.String({
    description:
      "The name of the model or operation, the id of the key or account, the day (`2026-11-21`), or the start of the hour, in UTC.",
  }),
  name: nullable(Type.String({ description: "The name of the key or account." })),
}

const reportBy = <Sums extends TProperties>(words: readonly Grouping[], sums: Sums) =>
  Type.Object({
    from: Time,
    to: Time,
    by: Type.Unsafe<Grouping>(Type.Union(words.map((word) => Type.Literal(word)))),
    data: Type.Array(Type.Object({ ...group, ...sums }), {
      description:
        "Days and hours in chronological order, all others by charge, the highest first. Groups without any ended or corrected call are left out.",
    }),
    left_out: Type.Integer({
      minimum: 0,
      description: "The number of groups beyond the first 1,000, which are not shown. `total` includes them.",
    }),
    total: Type.Object(sums),
  })

export const UsageReport = reportBy(groupings, sums)
export const OperatorUsageReport = reportBy(operatorGroupings, operatorSums)
export type UsageReport = Static<typeof UsageReport>
export type OperatorUsageReport = Static<typeof OperatorUsageReport>

import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { type Grouping, groupings, operatorGroupings } from "./usage-query.ts"

/** What `GET /v1/usage` and `GET /admin/usage` answer (D48). */

const Time = Type.String({ format: "date-time", description: "RFC 3339, in UTC." })
/** A correction counts with its difference, so a sum may be below 0 (D48). */
const Tokens = Type.Integer()
const Money = Type.String({
  pattern: "^-?\\d+(?:\\.\\d{1,9})?$",
  description: "USD as a decimal string with at most nine decimals.",
})
const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])

const sums = {
  calls: Type.Integer({ minimum: 0, description: "Calls that ended, the free ones too." }),
  prompt_tokens: Type.Integer({ description: "As charged, cached ones included." }),
  cached_tokens: Tokens,
  completion_tokens: Tokens,
  charge: Money,
  overage: Type.String({
    pattern: Money.pattern ?? "",
    description: "The part of the charge above what was held.",
  }),
}

export const UsageSums = Type.Object(sums)
export type UsageSums = Static<typeof UsageSums>

export const UsageGroup = Type.Object({
  group: Type.String({
    description:
      "The model's name, the id of the key or account, the day (`2026-11-21`) or the first moment of the hour, in UTC.",
  }),
  name: nullable(Type.String({ description: "What people call the key or account." })),
  ...sums,
})
export type UsageGroup = Static<typeof UsageGroup>

const reportBy = (words: readonly Grouping[]) =>
  Type.Object({
    from: Time,
    to: Time,
    by: Type.Unsafe<Grouping>(Type.Union(words.map((word) => Type.Literal(word)))),
    data: Type.Array(UsageGroup, {
      description:
        "Days and hours in their order, all else by the charge, the highest first. Groups in which nothing ended and nothing was corrected are left out.",
    }),
    left_out: Type.Integer({
      minimum: 0,
      description: "How many groups are not shown, beyond the first 1,000; `total` includes them.",
    }),
    total: UsageSums,
  })

export const UsageReport = reportBy(groupings)
export const OperatorUsageReport = reportBy(operatorGroupings)
export type UsageReport = Static<typeof OperatorUsageReport>

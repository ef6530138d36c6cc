import { type Static, Type } from "@sinclair/typebox"
import { count } from "./field.ts"
import { query, wholeNumber } from "./parameter.ts"

/** `GET /admin/usage-notes`: calls whose charge may not be what the provider bills (D87, D90). */

const MAX_DAYS = 30
export const DEFAULT_NOTE_DAYS = 7

export const UsageNotesQuery = query({
  days: wholeNumber(MAX_DAYS, DEFAULT_NOTE_DAYS, "How many days of 24 hours to include."),
})

const Count = Type.Integer({ minimum: 0 })

export const UsageNotesBody = Type.Object({
  days: Type.Integer(),
  data: Type.Array(
    Type.Object({
      model: Type.String(),
      upstream: Type.String(),
      calls: Type.Integer({
        minimum: 1,
        description: "Calls with one of these notes, or below the provider's cost.",
      }),
      notes: Type.Object({
        usage_unread: Count,
        total_unexplained: Count,
        usage_implausible: Count,
        unpriced: Count,
      }),
      below_cost_calls: count(
        "Calls whose charge at a price multiplier of 1 is below what the provider says that they cost.",
      ),
      unread: Type.Array(Type.String(), {
        description: "Numbers in the provider's usage that Tollgate does not know.",
      }),
    }),
    { description: "Models and upstreams, most calls first. At most 100." },
  ),
})
export type UsageNotesBody = Static<typeof UsageNotesBody>

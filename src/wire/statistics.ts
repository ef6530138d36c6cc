import { type Static, Type } from "@sinclair/typebox"
import { bases, failures, states } from "./call.ts"
import { splits } from "./statistics-query.ts"

/** What the operators' statistics answer (D51): sums over the calls that ended, by when they ended. */

const Time = Type.String({ format: "date-time", description: "RFC 3339, in UTC." })
const Count = Type.Integer({ minimum: 0 })
const Tokens = Type.Integer()
const Milliseconds = Type.Integer({ minimum: 0 })
const Money = Type.String({
  pattern: "^-?\\d+(?:\\.\\d{1,9})?$",
  description: "A USD amount as a decimal string with at most nine decimals.",
})
const word = (words: readonly string[]) => Type.String({ enum: [...words] })
const span = { from: Time, to: Time }

/** Every list has one entry for each step. A correction counts with its difference, so a sum may be below 0 (D48). */
const Steps = {
  calls: Type.Array(Count, { description: "Calls that ended, including those without a charge." }),
  charge: Type.Array(Money),
  prompt_tokens: Type.Array(Tokens, { description: "Charged prompt tokens, including cached ones." }),
  cached_tokens: Type.Array(Tokens),
  completion_tokens: Type.Array(Tokens),
}

export const TimelineGroup = Type.Object({
  group: Type.Union([Type.String(), Type.Null()], {
    description: "The name of the model, or the id of the key or account; null for the group of all others.",
  }),
  name: Type.Union([Type.String(), Type.Null()], {
    description:
      "The name of the account. For a key, the name of its account and its own name, or its first characters: `Acme: production`.",
  }),
  ...Steps,
})
export type TimelineGroup = Static<typeof TimelineGroup>

export const TimelineBody = Type.Object({
  ...span,
  by: word(splits),
  step_s: Type.Integer({
    minimum: 60,
    description: "The length of a step in seconds. Steps start at multiples of it since 1970, in UTC.",
  }),
  starts_at: Type.Array(Time, {
    description: "When each step starts. The first one can start before `from`.",
  }),
  data: Type.Array(TimelineGroup, {
    description: "The groups, highest charge first. The group of all others, if any, is last.",
  }),
  left_out: Type.Integer({ minimum: 0, description: "The number of groups combined in the last one." }),
})
export type TimelineBody = Static<typeof TimelineBody>

const Distribution = Type.Object({
  calls: Count,
  p50_ms: Type.Union([Milliseconds, Type.Null()]),
  p90_ms: Type.Union([Milliseconds, Type.Null()]),
  p99_ms: Type.Union([Milliseconds, Type.Null()]),
  buckets: Type.Array(Type.Object({ from_ms: Milliseconds, below_ms: Milliseconds, calls: Count }), {
    description:
      "Five buckets per power of ten, without gaps between the first and the last bucket with calls.",
  }),
})
export type DistributionBody = Static<typeof Distribution>

export const LatencyBody = Type.Object(
  {
    ...span,
    ttft: Distribution,
    duration: Distribution,
  },
  {
    description:
      "`ttft`: from admission to the first output, for calls with output. `duration`: from admission to settlement. Times above a second are rounded down to three digits.",
  },
)
export type LatencyBody = Static<typeof LatencyBody>

export const OutcomesBody = Type.Object({
  ...span,
  data: Type.Array(
    Type.Object({
      state: word(states),
      basis: word(bases),
      failure: Type.Union([word(failures), Type.Null()]),
      calls: Count,
      charge: Money,
    }),
    { description: "The outcomes, the most frequent first." },
  ),
})
export type OutcomesBody = Static<typeof OutcomesBody>

import { type Static, Type } from "@sinclair/typebox"
import { Count, Milliseconds, Money, Time } from "./admin.ts"
import { bases, failures, states } from "./call.ts"
import { invalidField } from "./fault.ts"
import { choice, count, nullable, resource, text, titled } from "./field.ts"
import { id, ids, model, moment, query, wholeNumber, word } from "./parameter.ts"

/** The query strings of the operators' statistics (D51). */

export const splits = ["model", "key", "account"] as const
export type Split = (typeof splits)[number]

const DAY_MS = 86_400_000
const DEFAULT_HOURS = 24
const MAX_DAYS = 92
const MAX_ACCOUNTS = 100
export const DEFAULT_GROUPS = 6
const MAX_GROUPS = 100

const filters = {
  from: moment(
    `Only calls that ended at or after this time. Default: ${DEFAULT_HOURS} hours before \`to\`. Maximum: ${MAX_DAYS} days before \`to\`.`,
    { format: "date-time" },
  ),
  to: moment("Only calls that ended before this time. Default: now.", { format: "date-time" }),
  account: ids(MAX_ACCOUNTS, `Only calls of these accounts: up to ${MAX_ACCOUNTS} ids, separated by commas.`),
  key: id("Only calls made with this key."),
  model: model("Only calls to this model, by the name that clients use."),
}

export const StatisticsQuery = query(filters)

export const TimelineQuery = query({
  ...filters,
  by: word(splits, "What to group by. Default: `model`."),
  groups: wholeNumber(MAX_GROUPS, DEFAULT_GROUPS, "How many groups to list one by one."),
})

/** The calls that ended from `from` on and before `to`, and pass the filters. */
export type StatisticsSpan = ReturnType<typeof statisticsSpan>

/** `to` is now by default, `from` 24 hours earlier. Throws `invalid_request` for a negative or too long range. */
export function statisticsSpan(query: Static<typeof StatisticsQuery>, now: Date) {
  const { to = new Date(now.getTime() + 1), account, key, model } = query
  const { from = new Date(Math.max(0, to.getTime() - DEFAULT_HOURS * 3_600_000)) } = query
  if (from >= to) throw invalidField("from", "a time before `to`")
  if (to.getTime() - from.getTime() > MAX_DAYS * DAY_MS) {
    throw invalidField("from", `a time at most ${MAX_DAYS} days before \`to\``)
  }
  return { from, to, account_ids: account, key_id: key, model }
}

/** The answers of the operators' statistics (D51): sums over calls, by the time they ended. */

const Tokens = Type.Integer()
const span = { from: Time, to: Time }

/** Each list has one entry per step. A correction counts with its difference, so a sum can be negative (D48). */
const Steps = {
  calls: Type.Array(Count, { description: "Calls that ended, including those without a charge." }),
  charge: Type.Array(Money),
  prompt_tokens: Type.Array(Tokens, { description: "Charged prompt tokens, including cached ones." }),
  cached_tokens: Type.Array(Tokens),
  completion_tokens: Type.Array(Tokens),
}

export const TimelineGroup = Type.Object({
  group: nullable(
    Type.String(),
    "The name of the model, or the id of the key or account; null for the group of all others.",
  ),
  name: nullable(
    Type.String(),
    "The name of the account. For a key, the name of its account and its own name, or its first characters: `Acme: production`.",
  ),
  ...Steps,
})
export type TimelineGroup = Static<typeof TimelineGroup>

export const TimelineBody = Type.Object({
  ...span,
  by: choice(splits),
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
  left_out: count("The number of groups combined in the last one."),
})
export type TimelineBody = Static<typeof TimelineBody>

const Distribution = Type.Object({
  calls: Count,
  p50_ms: nullable(Milliseconds),
  p90_ms: nullable(Milliseconds),
  p99_ms: nullable(Milliseconds),
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
      state: choice(states),
      basis: choice(bases),
      failure: nullable(choice(failures)),
      calls: Count,
      charge: Money,
    }),
    { description: "The outcomes, the most frequent first." },
  ),
})
export type OutcomesBody = Static<typeof OutcomesBody>

/** An entry of `GET /admin/upstreams`: the status of one upstream in one process (D51). */
export const UpstreamBody = resource({
  name: titled("Upstream", Type.String()),
  family: choice(["chat", "messages"]),
  models: Type.Array(Type.String(), {
    description: "The models that it can serve, by the names that clients use.",
  }),
  worker: titled(
    "Process",
    nullable(
      Type.Integer(),
      "The worker that this entry describes: each worker has its own breakers. Null for a gateway without workers.",
    ),
  ),
  state: titled(
    "State",
    choice(["ready", "open", "trying"]),
    "`ready`: receives calls. `open`: skipped after five consecutive failures: by all accounts if one could not be sent, and if they were of two accounts by those whose last call failed. `trying`: one call is testing whether it works again.",
  ),
  failures: titled("Consecutive failures", count("The number of consecutive failures.")),
  tries_in_ms: titled(
    "Next attempt",
    nullable(
      Type.Integer({ minimum: 0 }),
      "Milliseconds until a call can try an upstream that is not ready; 0 means the next call will.",
    ),
  ),
  accounts_skipped: count(
    "The number of accounts for which alone it is skipped, because five of their calls in a row failed there.",
  ),
  keys: titled(
    "Keys that rest",
    Type.Array(
      Type.Object({
        name: text("The name in the configuration; empty for the only key."),
        state: choice(
          ["ready", "rate_limited", "refused"],
          "`rate_limited`: the provider limited the rate of a model. `refused`: the provider refused the key, or the account behind it is empty. Such a key is asked only if no other is ready, and by all accounts but the refused one until a second is refused.",
        ),
        rests_ms: nullable(Type.Integer(), "Milliseconds until it is asked again; null if it is ready."),
      }),
    ),
  ),
})
export type UpstreamBody = Static<typeof UpstreamBody>

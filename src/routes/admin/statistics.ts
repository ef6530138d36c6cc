import { Elysia } from "elysia"
import { ledgerTime } from "../../id.ts"
import type { Distribution } from "../../ledger/reports/distribution.ts"
import { latency } from "../../ledger/reports/latency.ts"
import { outcomes } from "../../ledger/reports/outcomes.ts"
import { type Timeline, type TimelineGroup, timeline } from "../../ledger/reports/timeline.ts"
import { printUsd } from "../../money.ts"
import {
  type DistributionBody,
  LatencyBody,
  OutcomesBody,
  TimelineBody,
  type TimelineGroup as TimelineGroupBody,
} from "../../wire/statistics.ts"
import {
  DEFAULT_GROUPS,
  DEFAULT_HOURS,
  MAX_ACCOUNTS,
  MAX_DAYS,
  MAX_GROUPS,
  parseStatisticsQuery,
  parseTimelineQuery,
  type StatisticsQuery,
  splits,
  type TimelineQuery,
} from "../../wire/statistics-query.ts"
import { printTime } from "../../wire/time.ts"
import { operation, type Parameter } from "../openapi.ts"
import { askLong } from "./books.ts"
import { answer, type Operators, queryOf } from "./operators.ts"
import { accountExample, ERRORS, fieldFault, filterParameter, keyExample } from "./reference.ts"

/** `/admin/timeline`, `/admin/latency` and `/admin/outcomes`: what the calls of a span of time were like, for plots (D51). */
export function statisticsRoutes(operators: Operators) {
  const { database } = operators
  return new Elysia({ name: "admin-statistics" })
    .get(
      "/timeline",
      async ({ request }) => {
        const query = parseTimelineQuery(queryOf(request), ledgerTime())
        const found = await askLong(operators, timeline(database, query, query.by, query.groups))
        return answer(timelineBody(query, found))
      },
      { detail: showingTimeline },
    )
    .get(
      "/latency",
      async ({ request }) => {
        const query = parseStatisticsQuery(queryOf(request), ledgerTime())
        const { ttft, duration } = await askLong(operators, latency(database, query))
        const body: LatencyBody = {
          ...spanBody(query),
          ttft: distributionBody(ttft),
          duration: distributionBody(duration),
        }
        return answer(body)
      },
      { detail: showingLatency },
    )
    .get(
      "/outcomes",
      async ({ request }) => {
        const query = parseStatisticsQuery(queryOf(request), ledgerTime())
        const found = await askLong(operators, outcomes(database, query))
        const body: OutcomesBody = {
          ...spanBody(query),
          data: found.map(({ charge_nano, ...outcome }) => ({ ...outcome, charge: printUsd(charge_nano) })),
        }
        return answer(body)
      },
      { detail: showingOutcomes },
    )
}

function spanBody({ from, to }: StatisticsQuery) {
  return { from: printTime(from), to: printTime(to) }
}

function timelineBody(query: TimelineQuery, { step_s, starts_at, groups, left_out }: Timeline): TimelineBody {
  return {
    ...spanBody(query),
    by: query.by,
    step_s,
    starts_at: starts_at.map(printTime),
    data: groups.map(groupBody),
    left_out,
  }
}

function groupBody({ group, name, steps }: TimelineGroup): TimelineGroupBody {
  return {
    group,
    name,
    calls: steps.map(({ calls }) => calls),
    charge: steps.map(({ charge_nano }) => printUsd(charge_nano)),
    prompt_tokens: steps.map(({ prompt_tokens }) => prompt_tokens),
    cached_tokens: steps.map(({ cached_tokens }) => cached_tokens),
    completion_tokens: steps.map(({ completion_tokens }) => completion_tokens),
  }
}

function distributionBody({ buckets, ...rest }: Distribution): DistributionBody {
  return { ...rest, buckets: [...buckets] }
}

const spanParameters: readonly Parameter[] = [
  filterParameter(
    "from",
    `Calls that ended then or later; ${DEFAULT_HOURS} hours before \`to\` unless given, and at most ${MAX_DAYS} days.`,
    { format: "date-time" },
  ),
  filterParameter("to", "Calls that ended earlier; now unless given.", { format: "date-time" }),
  filterParameter("account", `Calls of this account, or of up to ${MAX_ACCOUNTS} with commas between them.`),
  filterParameter("key", "Calls with this key.", { format: "uuid" }),
  filterParameter("model", "Calls to this model, as the client named it."),
]

const exampleSpan = { from: "2026-11-21T09:30:00.000Z", to: "2026-11-21T09:32:00.000Z" }

const showingTimeline = operation({
  operationId: "getTimeline",
  tag: "Books",
  summary: "Money and tokens over time",
  description:
    "What the calls of a span cost and used, in steps of time, by model, key or account: those that cost most one by one, the others together. The length of a step goes by that of the span: a minute for an hour, a quarter of an hour for a day. Calls that are still open are left out.",
  credentials: ["adminToken"],
  parameters: [
    filterParameter("by", "What to split by; `model` unless given.", { enum: [...splits] }),
    {
      name: "groups",
      in: "query",
      description: "How many groups are shown one by one.",
      schema: { type: "integer", minimum: 1, maximum: MAX_GROUPS, default: DEFAULT_GROUPS },
    },
    ...spanParameters,
  ],
  answers: {
    200: {
      description: "The timeline.",
      json: {
        schema: TimelineBody,
        examples: {
          key: {
            ...exampleSpan,
            by: "key",
            step_s: 60,
            starts_at: ["2026-11-21T09:30:00.000Z", "2026-11-21T09:31:00.000Z"],
            data: [
              {
                group: keyExample.id,
                name: `${accountExample.name}: ${keyExample.name}`,
                calls: [2, 1],
                charge: ["0.00062", "0.00031"],
                prompt_tokens: [80, 40],
                cached_tokens: [0, 0],
                completion_tokens: [300, 150],
              },
            ],
            left_out: 0,
          },
        },
      },
    },
  },
  errors: [fieldFault("from", "an RFC 3339 time or a day such as 2026-11-21"), ...ERRORS],
})

const distributionExample = {
  calls: 3,
  p50_ms: 380,
  p90_ms: 2400,
  p99_ms: 2400,
  buckets: [
    { from_ms: 250, below_ms: 400, calls: 2 },
    { from_ms: 400, below_ms: 630, calls: 0 },
    { from_ms: 630, below_ms: 1000, calls: 0 },
    { from_ms: 1000, below_ms: 1600, calls: 0 },
    { from_ms: 1600, below_ms: 2500, calls: 1 },
  ],
}

const showingLatency = operation({
  operationId: "getLatency",
  tag: "Books",
  summary: "How long calls took",
  description:
    "The distribution of the time until the first output (`ttft`) and of the whole call (`duration`), from the books: percentiles by nearest rank, and a histogram with logarithmic buckets.",
  credentials: ["adminToken"],
  parameters: spanParameters,
  answers: {
    200: {
      description: "The distributions.",
      json: {
        schema: LatencyBody,
        examples: {
          latency: { ...exampleSpan, ttft: distributionExample, duration: distributionExample },
        },
      },
    },
  },
  errors: [fieldFault("from", "an RFC 3339 time or a day such as 2026-11-21"), ...ERRORS],
})

const showingOutcomes = operation({
  operationId: "getOutcomes",
  tag: "Books",
  summary: "How calls ended",
  description:
    "How many calls ended in each way: their state, what the charge rests on, and what went wrong, if anything did.",
  credentials: ["adminToken"],
  parameters: spanParameters,
  answers: {
    200: {
      description: "The ways, the most frequent first.",
      json: {
        schema: OutcomesBody,
        examples: {
          outcomes: {
            ...exampleSpan,
            data: [
              { state: "settled", basis: "usage", failure: null, calls: 41, charge: "0.01271" },
              { state: "settled", basis: "estimate", failure: "client_left", calls: 2, charge: "0.0003" },
              { state: "released", basis: "none", failure: "upstream_error", calls: 1, charge: "0" },
            ],
          },
        },
      },
    },
  },
  errors: [fieldFault("from", "an RFC 3339 time or a day such as 2026-11-21"), ...ERRORS],
})

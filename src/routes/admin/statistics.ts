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
import { ask } from "./books.ts"
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
        const found = await ask(operators, timeline(database, query, query.by, query.groups))
        return answer(timelineBody(query, found))
      },
      { detail: showingTimeline },
    )
    .get(
      "/latency",
      async ({ request }) => {
        const query = parseStatisticsQuery(queryOf(request), ledgerTime())
        const { ttft, duration } = await ask(operators, latency(database, query))
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
        const found = await ask(operators, outcomes(database, query))
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
    `Only calls that ended at or after this time. Default: ${DEFAULT_HOURS} hours before \`to\`. Maximum: ${MAX_DAYS} days before \`to\`.`,
    { format: "date-time" },
  ),
  filterParameter("to", "Only calls that ended before this time. Default: now.", { format: "date-time" }),
  filterParameter("account", `Only calls of these accounts: up to ${MAX_ACCOUNTS} ids, separated by commas.`),
  filterParameter("key", "Only calls made with this key.", { format: "uuid" }),
  filterParameter("model", "Only calls to this model, by the name that clients use."),
]

const exampleSpan = { from: "2026-11-21T09:30:00.000Z", to: "2026-11-21T09:32:00.000Z" }

const showingTimeline = operation({
  operationId: "getTimeline",
  tag: "Ledger",
  summary: "Get charges and tokens over time",
  description:
    "Shows what the calls in a time range cost and used, in time steps, by model, key or account. The groups with the highest charges are listed one by one, the rest as one group. The step depends on the range: one minute for an hour, 15 minutes for a day. Open calls are not included.",
  credentials: ["adminToken"],
  parameters: [
    filterParameter("by", "What to group by. Default: `model`.", { enum: [...splits] }),
    {
      name: "groups",
      in: "query",
      description: "How many groups to list one by one.",
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
  tag: "Ledger",
  summary: "Get latency distributions",
  description:
    "Shows the distribution of the time to the first output (`ttft`) and of the duration of the whole call (`duration`): percentiles by nearest rank, and a histogram with logarithmic buckets.",
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
  tag: "Ledger",
  summary: "Get call outcomes",
  description:
    "Counts calls by outcome: their state, the basis of the charge, and the failure, if there was one.",
  credentials: ["adminToken"],
  parameters: spanParameters,
  answers: {
    200: {
      description: "The outcomes, the most frequent first.",
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

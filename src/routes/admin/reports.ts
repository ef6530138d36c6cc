import { Elysia } from "elysia"
import { ledgerTime } from "../../id.ts"
import type { Distribution } from "../../ledger/reports/distribution.ts"
import { latencies } from "../../ledger/reports/latency.ts"
import {
  addLatencies,
  addOutcomes,
  addTimelines,
  groupsOfShard,
  nameGroups,
} from "../../ledger/reports/merge.ts"
import { outcomes } from "../../ledger/reports/outcomes.ts"
import { type Timeline, type TimelineGroup, timeline, timelineNames } from "../../ledger/reports/timeline.ts"
import { groupNames, sumUsage, type UsageRange, type UsageSummary } from "../../ledger/reports/usage-sums.ts"
import { printUsd } from "../../money.ts"
import {
  DEFAULT_GROUPS,
  type DistributionBody,
  LatencyBody,
  OutcomesBody,
  type Split,
  StatisticsQuery,
  type StatisticsSpan,
  statisticsSpan,
  TimelineBody,
  type TimelineGroup as TimelineGroupBody,
  TimelineQuery,
} from "../../wire/statistics.ts"
import { printTime } from "../../wire/time.ts"
import { OperatorUsageQuery, OperatorUsageReport, usageRange } from "../../wire/usage-report.ts"
import { accountExample, ERRORS, fieldFault, keyExample, operatorUsageExample } from "../docs/examples.ts"
import { answer, operation } from "../openapi.ts"
import { operatorUsageReport, wholeUsage } from "../record-bodies.ts"
import type { OperatedShard, Operators } from "./operators.ts"
import { accountOfKey, askAll, askShard } from "./shards.ts"

/**
 * The reports about the calls of a time range: `/admin/usage` (D48), and for plots `/admin/timeline`, `/admin/latency` and
 * `/admin/outcomes` (D51).
 */
export function reportRoutes(operators: Operators) {
  return new Elysia({ name: "admin-reports" })
    .get(
      "/usage",
      async ({ query: { account, key, model, ...asked } }) => {
        const range = usageRange(asked, ledgerTime())
        const account_ids = account === undefined ? undefined : [account]
        const span = await inAllShards(operators, { ...range, account_ids, key_id: key, model })
        return operatorUsageReport(range, await usageOf(operators, span))
      },
      showingUsage,
    )
    .get(
      "/timeline",
      async ({ query: { by = "model", groups = DEFAULT_GROUPS, ...asked } }) => {
        const span = await inAllShards(operators, statisticsSpan(asked, ledgerTime()))
        return timelineBody(span, by, await timelineOf(operators, span, by, groups))
      },
      showingTimeline,
    )
    .get(
      "/latency",
      async ({ query }) => {
        const span = await inAllShards(operators, statisticsSpan(query, ledgerTime()))
        const { ttft, duration } = addLatencies(
          await askSums(operators, (database) => latencies(database, span)),
        )
        return {
          ...spanBody(span),
          ttft: distributionBody(ttft),
          duration: distributionBody(duration),
        }
      },
      showingLatency,
    )
    .get(
      "/outcomes",
      async ({ query }) => {
        const span = await inAllShards(operators, statisticsSpan(query, ledgerTime()))
        const found = addOutcomes(await askSums(operators, (database) => outcomes(database, span)))
        return {
          ...spanBody(span),
          data: found.map(({ charge_nano, ...outcome }) => ({ ...outcome, charge: printUsd(charge_nano) })),
        }
      },
      showingOutcomes,
    )
}

function askSums<Answer>(
  operators: Operators,
  question: (database: OperatedShard["database"]) => Promise<Answer>,
): Promise<Answer[]> {
  return askAll(operators, question, { deadline_ms: operators.sums_deadline_ms })
}

/** A span that means the same calls in every shard, whichever has the key. */
async function inAllShards<Asked extends Pick<StatisticsSpan, "account_ids" | "key_id">>(
  operators: Operators,
  span: Asked,
): Promise<Asked> {
  if (span.account_ids !== undefined) return span
  const account_id = await accountOfKey(operators, span.key_id)
  return account_id === undefined ? span : { ...span, account_ids: [account_id] }
}

async function usageOf(operators: Operators, range: UsageRange): Promise<UsageSummary> {
  const most = groupsOfShard(operators.shards.length)
  const whole = wholeUsage(await askSums(operators, (database) => sumUsage(database, range, most)))
  if (operators.shards.length === 1) return whole
  const groups = await nameGroups(whole.groups, (ids) =>
    askAll(operators, (database) => groupNames(database, range.by, ids)),
  )
  return { ...whole, groups }
}

/** With several shards, all have to be asked which groups cost most together before they are asked for those. */
async function timelineOf(
  operators: Operators,
  span: StatisticsSpan,
  by: Split,
  groups: number,
): Promise<Timeline> {
  const [first, ...others] = operators.shards
  if (others.length === 0)
    return askShard(operators, first, (database) => timeline(database, span, by, groups), {
      deadline_ms: operators.sums_deadline_ms,
    })
  const ranked = await usageOf(operators, { ...span, by })
  const chosen = ranked.groups.slice(0, groups).map(({ group }) => String(group))
  const parts = await askSums(operators, (database) => timeline(database, span, by, chosen))
  const whole = addTimelines(parts, chosen, ranked.groups.length + ranked.left_out - chosen.length)
  const named = await nameGroups(whole.groups, (ids) =>
    askAll(operators, (database) => timelineNames(database, by, ids)),
  )
  return { ...whole, groups: named }
}

function spanBody({ from, to }: StatisticsSpan) {
  return { from: printTime(from), to: printTime(to) }
}

function timelineBody(
  span: StatisticsSpan,
  by: Split,
  { step_s, starts_at, groups, left_out }: Timeline,
): TimelineBody {
  return {
    ...spanBody(span),
    by,
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

const showingUsage = {
  query: OperatorUsageQuery,
  response: {
    200: answer("The usage.", OperatorUsageReport, {
      "By day": operatorUsageExample,
      "By account": {
        ...operatorUsageExample,
        by: "account",
        data: [{ group: accountExample.id, name: accountExample.name, ...operatorUsageExample.total }],
      },
    }),
  },
  detail: operation({
    operationId: "sumUsage",
    tag: "Ledger",
    summary: "Get usage",
    description:
      "Shows what the calls in a time range used and cost: by model, operation, key, session, account, day or hour, and in total. `cost` is without the price multipliers of the accounts. `profit` is the charge minus the cost. A call counts at the time it ended. A correction counts at the time it was made, with the difference from the earlier charge, which can be negative. Adjacent ranges therefore never overlap or leave a gap, and past ranges do not change.",
    credentials: ["adminToken"],
    errors: [fieldFault("from", "an RFC 3339 time or a day such as 2026-11-21"), ...ERRORS],
  }),
}

const exampleSpan = { from: "2026-11-21T09:30:00.000Z", to: "2026-11-21T09:32:00.000Z" }

const showingTimeline = {
  query: TimelineQuery,
  response: {
    200: answer("The timeline.", TimelineBody, {
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
    }),
  },
  detail: operation({
    operationId: "getTimeline",
    tag: "Ledger",
    summary: "Get charges and tokens over time",
    description:
      "Shows what the calls in a time range cost and used, in time steps, by model, key or account. The groups with the highest charges are listed one by one, the rest as one group. The step depends on the range: one minute for an hour, 15 minutes for a day. Open calls are not included.",
    credentials: ["adminToken"],
    errors: [fieldFault("from", "an RFC 3339 time or a day such as 2026-11-21"), ...ERRORS],
  }),
}

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

const showingLatency = {
  query: StatisticsQuery,
  response: {
    200: answer("The distributions.", LatencyBody, {
      latency: { ...exampleSpan, ttft: distributionExample, duration: distributionExample },
    }),
  },
  detail: operation({
    operationId: "getLatency",
    tag: "Ledger",
    summary: "Get latency distributions",
    description:
      "Shows the distribution of the time to the first output (`ttft`) and of the duration of the whole call (`duration`): percentiles by nearest rank, and a histogram with logarithmic buckets.",
    credentials: ["adminToken"],
    errors: [fieldFault("from", "an RFC 3339 time or a day such as 2026-11-21"), ...ERRORS],
  }),
}

const showingOutcomes = {
  query: StatisticsQuery,
  response: {
    200: answer("The outcomes, the most frequent first.", OutcomesBody, {
      outcomes: {
        ...exampleSpan,
        data: [
          { state: "settled", basis: "usage", failure: null, calls: 41, charge: "0.01271" },
          { state: "settled", basis: "estimate", failure: "client_left", calls: 2, charge: "0.0003" },
          { state: "released", basis: "none", failure: "upstream_error", calls: 1, charge: "0" },
        ],
      },
    }),
  },
  detail: operation({
    operationId: "getOutcomes",
    tag: "Ledger",
    summary: "Get call outcomes",
    description:
      "Counts calls by how they ended: their state, the basis of the charge, and the failure, if there was one. A correction is no call; its difference is added to the charge of `settled`, at the time of the correction.",
    credentials: ["adminToken"],
    errors: [fieldFault("from", "an RFC 3339 time or a day such as 2026-11-21"), ...ERRORS],
  }),
}

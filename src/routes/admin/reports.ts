import { Elysia } from "elysia"
import { ledgerTime } from "../../id.ts"
import type { Timeline } from "../../ledger/reports/timeline.ts"
import { printUsd } from "../../money.ts"
import { AttemptBody, AttemptsBody, AttemptsQuery } from "../../wire/attempts.ts"
import { bodyOf } from "../../wire/record.ts"
import { RefusalBody, RefusalsBody, RefusalsQuery, refusalSpan } from "../../wire/refusals.ts"
import {
  DEFAULT_GROUPS,
  LatencyBody,
  OutcomesBody,
  type Split,
  StatisticsQuery,
  type StatisticsSpan,
  statisticsSpan,
  TimelineBody,
  TimelineGroup,
  TimelineQuery,
} from "../../wire/statistics.ts"
import { DEFAULT_NOTE_DAYS, UsageNotesBody, UsageNotesQuery } from "../../wire/usage-notes.ts"
import { OperatorUsageQuery, OperatorUsageReport, usageRange } from "../../wire/usage-report.ts"
import { rowsFor } from "../list-formats.ts"
import { operatorUsageReport } from "../record-bodies.ts"
import { EXAMPLE_ACCOUNT, EXAMPLE_ID, exampleOf } from "../reference/example.ts"
import { answer } from "../reference/operation.ts"
import { ofLedger } from "../reference/routes.ts"
import { madeAnswer, type Operators } from "./operators.ts"

/** The reports on a time range (D48, D51, D80, D87, D90, D93). */
export function reportRoutes(operators: Operators) {
  const { ledger } = operators
  return new Elysia({ name: "admin-reports" })
    .get(
      "/usage",
      async ({ request, query: { account, key, model, ...period } }) => {
        const range = usageRange(period, ledgerTime())
        const account_ids = account === undefined ? undefined : [account]
        const span = { ...range, account_ids, key_id: key, model }
        const rows = rowsFor(request, () => madeAnswer(operators))
        return operatorUsageReport(range, rows, (most, take) => ledger.readUsage(span, most, take))
      },
      ofLedger({
        query: OperatorUsageQuery,
        response: {
          200: answer("The usage.", OperatorUsageReport, {
            "By day": { data: [exampleOf(usage, { group: "2026-11-21", name: null })] },
            "By account": { by: "account", data: [exampleOf(usage, { group: EXAMPLE_ACCOUNT })] },
          }),
        },
        operationId: "sumUsage",
        summary: "Get usage",
        description:
          "Shows what the calls in a time range used and cost: by model, operation, key, session, account, day or hour, and in total. `cost` is without the price multipliers of the accounts. `profit` is the charge minus the cost. A call counts at the time it ended. A correction counts at the time it was made, with the difference from the earlier charge, which can be negative. Adjacent ranges therefore never overlap or leave a gap, and past ranges do not change.",
        invalid: "from",
      }),
    )
    .get(
      "/timeline",
      async ({ query: { by = "model", groups = DEFAULT_GROUPS, ...period } }) => {
        const span = statisticsSpan(period, ledgerTime())
        return timelineBody(span, by, await ledger.timeline(span, by, groups))
      },
      ofLedger({
        query: TimelineQuery,
        response: {
          200: answer("The timeline.", TimelineBody, { key: { by: "key", data: [timeline] } }),
        },
        operationId: "getTimeline",
        summary: "Get charges and tokens over time",
        description:
          "Shows what the calls in a time range cost and used, in time steps, by model, key or account. The groups with the highest charges are listed one by one, the rest as one group. The step depends on the range: one minute for an hour, 15 minutes for a day. Open calls are not included.",
        invalid: "from",
      }),
    )
    .get(
      "/latency",
      async ({ query }) => {
        const span = statisticsSpan(query, ledgerTime())
        const { ttft, duration } = await ledger.latency(span)
        return bodyOf(LatencyBody, { ...span, ttft, duration })
      },
      ofLedger({
        query: StatisticsQuery,
        response: {
          200: answer("The distributions.", LatencyBody, {
            latency: { ttft: distribution, duration: distribution },
          }),
        },
        operationId: "getLatency",
        summary: "Get latency distributions",
        description:
          "Shows the distribution of the time to the first output (`ttft`) and of the duration of the whole call (`duration`): percentiles by nearest rank, and a histogram with logarithmic buckets.",
        invalid: "from",
      }),
    )
    .get(
      "/outcomes",
      async ({ query }) => {
        const span = statisticsSpan(query, ledgerTime())
        const outcomes = await ledger.outcomes(span)
        const data = outcomes.map((outcome) => bodyOf(OutcomesBody.properties.data.items, outcome))
        return bodyOf(OutcomesBody, { ...span, data })
      },
      ofLedger({
        query: StatisticsQuery,
        response: {
          200: answer("The outcomes, the most frequent first.", OutcomesBody, {
            outcomes: {
              data: [
                { state: "settled", basis: "usage", failure: null, calls: 41, charge: "0.01271" },
                { state: "settled", basis: "estimate", failure: "client_left", calls: 2, charge: "0.0003" },
                { state: "released", basis: "none", failure: "upstream_error", calls: 1, charge: "0" },
              ],
            },
          }),
        },
        operationId: "getOutcomes",
        summary: "Get call outcomes",
        description:
          "Counts calls by how they ended: their state, the basis of the charge, and the failure, if there was one. A correction is no call; its difference is added to the charge of `settled`, at the time of the correction.",
        invalid: "from",
      }),
    )
    .get(
      "/refusals",
      async ({ query: { account, key, code, ...period } }) => {
        const span = refusalSpan(period, ledgerTime())
        const sums = await ledger.refusals({ ...span, account_id: account, key_id: key, code })
        const data = sums.map((sum) =>
          bodyOf(RefusalBody, { ...sum, account: sum.account_id, key: sum.key_id }),
        )
        return bodyOf(RefusalsBody, { ...span, data })
      },
      ofLedger({
        query: RefusalsQuery,
        response: {
          200: answer("The refused calls.", RefusalsBody, { refusals: { data: [refusal] } }),
        },
        operationId: "listRefusals",
        summary: "List refused calls",
        description:
          "Shows how many calls were refused before anything was held or sent to a provider, by account, key and error code. Each process adds its refusals once a minute. Hours are kept for 30 days.",
        invalid: "from",
      }),
    )
    .get(
      "/attempts",
      async ({ query: { account, upstream, model, ...period } }) => {
        const span = refusalSpan(period, ledgerTime())
        const data = await ledger.attempts({ ...span, account_id: account, upstream, model })
        return bodyOf(AttemptsBody, { ...span, data })
      },
      ofLedger({
        query: AttemptsQuery,
        response: {
          200: answer("The attempts.", AttemptsBody, {
            attempts: {
              data: [
                exampleOf(AttemptBody, { status: 503, attempts: 31 }),
                exampleOf(AttemptBody, { failure: "timeout", attempts: 2 }),
              ],
            },
          }),
        },
        operationId: "listAttempts",
        summary: "List attempts that failed or gave no answer",
        description:
          "Counts the attempts that may have reached a provider but did not become the answer of their call, by upstream, key, model and outcome. The provider may bill them. Each is an entry of the journal, and `GET /admin/calls/{id}` shows those of a call. Attempts of calls before version 0.3 are shown with their calls only.",
        invalid: "from",
      }),
    )
    .get(
      "/usage-notes",
      async ({ query: { days = DEFAULT_NOTE_DAYS } }) => {
        const found = await ledger.notedUsage(days)
        return { days, data: found.map((noted) => ({ ...noted, unread: [...noted.unread] })) }
      },
      ofLedger({
        query: UsageNotesQuery,
        response: {
          200: answer("The models.", UsageNotesBody, { noted: { data: [noted] } }),
        },
        operationId: "listUsageNotes",
        summary: "List models whose usage was noted",
        description:
          "Lists the models and upstreams whose recent charges may differ from the provider's bill: numbers in the usage that Tollgate does not know, totals that do not add up, implausible usage, kinds without a price, and charges below the provider's own cost.",
        invalid: "days",
      }),
    )
}

function timelineBody(span: StatisticsSpan, by: Split, timeline: Timeline): TimelineBody {
  return bodyOf(TimelineBody, { ...span, ...timeline, by, data: timeline.groups.map(groupBody) })
}

function groupBody({ group, name, steps }: Timeline["groups"][number]): TimelineGroup {
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

const usage = OperatorUsageReport.properties.data.items

const timeline = exampleOf(TimelineGroup, { group: EXAMPLE_ID, name: "Acme: production" })

const distribution = {
  calls: 3,
  p50_ms: 380,
  p90_ms: 600,
  p99_ms: 600,
  buckets: [
    { from_ms: 250, below_ms: 400, calls: 2 },
    { from_ms: 400, below_ms: 630, calls: 1 },
  ],
}

const refusal = exampleOf(RefusalBody, {
  account: EXAMPLE_ACCOUNT,
  key: EXAMPLE_ID,
  code: "insufficient_balance",
  requests: 222,
})

const noted = exampleOf(UsageNotesBody.properties.data.items, {
  model: "sonar-pro",
  upstream: "perplexity",
  unread: ["citation_tokens"],
})

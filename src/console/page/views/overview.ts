import { EstimateBody, type EstimatesBody } from "../../../wire/estimates.ts"
import type { RefusalsBody } from "../../../wire/refusals.ts"
import type {
  LatencyBody,
  OutcomesBody,
  Split,
  TimelineBody,
  UpstreamBody,
} from "../../../wire/statistics.ts"
import { showCount, showShare } from "../../amount.ts"
import { type Metric, metrics, seriesOf, totalsOf } from "../../chart.ts"
import { addressOf, withQuery } from "../../fragment.ts"
import {
  RANGE_NAMES,
  rangeOf,
  ranges,
  showDuration,
  showMoment,
  spanOf,
  type TimeRange,
} from "../../times.ts"
import { counted, failureWords } from "../../words.ts"
import { ask } from "../admin-api.ts"
import { el, named } from "../element.ts"
import { callsLink, chip, choice, count, detail, modelLink, usd } from "../formats.ts"
import { noteAddress, part, poll, type ViewPart, type Visit, view } from "../part.ts"
import { histogram, timePlot } from "../plot.ts"
import { columnsOf, list } from "../table.ts"
import { auditPart } from "./audit.ts"

const splits: readonly Split[] = ["model", "key", "account"]
type ShownSpan = ReturnType<typeof spanOf>

const REFRESH_MS = 30_000

export function overview(visit: Visit): HTMLElement {
  const { query } = visit.address
  const redraw = () => {
    note()
    void overTime.load()
  }
  const first_metric = metrics.find((one) => one === query.metric) ?? "money"
  const metric = choice("Metric", metrics, first_metric, redraw)
  const first_split = splits.find((one) => one === query.by) ?? "model"
  const split = choice("Group by", splits, first_split, redraw, (one) => `by ${one}`)
  const range = choice("Range", ranges, rangeOf(query.range), () => {
    note()
    span = spanOf(range.value, Date.now())
    for (const one of [totals, overTime, latency, failures, refusals]) void one.load()
  })
  let span = spanOf(range.value, Date.now())
  const answer = asker(visit)
  const timeline = answer<TimelineBody>(() => withQuery("/timeline", { ...span, by: split.value }))
  const outcomes = answer<OutcomesBody>(() => withQuery("/outcomes", span))
  const refused = answer<RefusalsBody>(() => withQuery("/refusals", span))
  const latencies = answer<LatencyBody>(() => withQuery("/latency", span))

  const totals = part(visit, {
    class: "totals",
    content: async () => totalsOfCalls(await timeline(), await outcomes(), await refused()),
  })
  const overTime = part(visit, {
    title: "Over time",
    tools: el("div.actions", metric.element, split.element),
    content: async (signal) => plotOf(signal, await timeline(), metric.value),
  })
  const latency = part(visit, {
    title: "Latency",
    async content(signal) {
      const { ttft, duration } = await latencies()
      const plots = [histogram(signal, "First output", ttft), histogram(signal, "Whole call", duration)]
      return el("div.pair", ...plots)
    },
  })
  const failures = part(visit, {
    title: "Failures",
    content: async () => failuresOf(await outcomes(), range.value, span),
  })
  const refusals = part(visit, {
    title: "Refused calls",
    tools: el("a", { href: addressOf("accounts") }, "By account"),
    content: async () => refusalsOf(await refused(), range.value),
  })
  const upstreams = part(visit, {
    title: "Upstreams",
    tools: el("a", { href: addressOf("upstreams") }, "All upstreams"),
    content: async (signal) => healthOf((await ask<{ data: UpstreamBody[] }>("/upstreams", signal)).data),
  })
  const suggested = estimates(visit)

  async function refresh(): Promise<void> {
    span = spanOf(range.value, Date.now())
    const parts = [totals, overTime, latency, failures, refusals, upstreams, suggested]
    await Promise.all(parts.filter(({ element }) => !isInUse(element)).map((one) => one.load()))
  }
  function note(): void {
    noteAddress(visit, {
      range: range.value === "24h" ? "" : range.value,
      metric: metric.value === "money" ? "" : metric.value,
      by: split.value === "model" ? "" : split.value,
    })
  }
  poll(visit, REFRESH_MS, refresh)
  const state = el("div", upstreams.element, auditPart(visit).element)
  return view(
    "Overview",
    range.element,
    totals.element,
    overTime.element,
    latency.element,
    el("div.pair", el("div", failures.element, refusals.element), state),
    suggested.element,
  )
}

/** Asks once for each path that several parts show, one after another. A path that failed is asked again. */
function asker({ signal }: Visit) {
  let before: Promise<unknown> = Promise.resolve()
  return <Body>(pathOf: () => string) => {
    let known: { readonly path: string; readonly answer: Promise<Body> } | null = null
    return (): Promise<Body> => {
      const path = pathOf()
      if (known?.path === path) return known.answer
      const answer = before.then(() => ask<Body>(path, signal))
      before = answer.catch(() => {
        if (known?.answer === answer) known = null
      })
      known = { path, answer }
      return answer
    }
  }
}

/** Content with the focus or under the pointer is not replaced. */
function isInUse(element: HTMLElement): boolean {
  return !element.hasAttribute("aria-busy") && element.matches(":focus-within, :hover")
}

function totalsOfCalls(timeline: TimelineBody, { data }: OutcomesBody, refused: RefusalsBody): HTMLElement {
  const { charge, calls, prompt_tokens, cached_tokens, completion_tokens } = totalsOf(timeline)
  const ended = (counts: (outcome: OutcomesBody["data"][number]) => boolean) =>
    data.filter(counts).reduce((sum, outcome) => sum + outcome.calls, 0)
  const failed = ended(({ failure }) => failure !== null)
  const free = ended(({ state }) => state === "released")
  const kinds = `${showCount(prompt_tokens)} prompt, ${showCount(cached_tokens)} of them cached; ${showCount(completion_tokens)} completion`
  return detail("tiles", [
    ["Charged", usd(charge), `${showCount(free)} calls released without a charge`],
    ["Calls", count(calls), "ended"],
    ["Tokens", count(prompt_tokens + completion_tokens), kinds],
    ["Failed", showShare(failed, calls), counted(failed, "call", showCount(failed))],
    [
      "Refused",
      count(refused.data.reduce((sum, { requests }) => sum + requests, 0)),
      "calls that were never begun",
    ],
  ])
}

const NOTHING = "No calls ended in this time range."
const WHAT = { money: "Money charged", tokens: "Tokens charged", calls: "Calls" } as const

export function plotOf(signal: AbortSignal, timeline: TimelineBody, metric: Metric): HTMLElement {
  const { by, step_s, starts_at } = timeline
  const series = seriesOf(timeline, metric)
  if (series.length === 0) return el("p.empty", NOTHING)
  return timePlot(signal, {
    starts_at,
    step_s,
    metric,
    series,
    showStep: (at) => `${showMoment(starts_at[at] ?? "")}, ${showDuration(step_s * 1_000)}`,
    named: ({ name, group }) => groupLink(by, group, named(name)),
    label: `${WHAT[metric]} over time by ${by}`,
  })
}

function groupLink(by: string, group: string | null, name: HTMLElement): HTMLElement {
  if (group === null) return name
  return by === "account"
    ? el("a", { href: addressOf("accounts", group) }, name)
    : callsLink({ [by]: group }, name)
}

function failuresOf({ data }: OutcomesBody, range: TimeRange, span: ShownSpan): HTMLElement {
  const counts = countsOf(
    data.flatMap(({ failure, calls }): CountedName[] => (failure === null ? [] : [[failure, calls]])),
  )
  if (counts.size === 0) {
    return el("p.empty", data.length === 0 ? NOTHING : `No failures in the ${RANGE_NAMES[range]}.`)
  }
  return bars(counts, (failure) => {
    const href = addressOf("calls", null, { failure, ...span })
    return el("a", { href, title: failure }, failureWords(failure))
  })
}

function refusalsOf({ data }: RefusalsBody, range: TimeRange): HTMLElement {
  if (data.length === 0) return el("p.empty", `No refused calls in the ${RANGE_NAMES[range]}.`)
  return bars(countsOf(data.map(refusedAs)), named)
}

type CountedName = readonly [name: string, count: number]

const refusedAs = ({ code, requests }: RefusalsBody["data"][number]): CountedName => [code, requests]

function countsOf(rows: readonly CountedName[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const [name, more] of rows) counts.set(name, (counts.get(name) ?? 0) + more)
  return counts
}

/** Counts by name, highest first, each with a bar. */
function bars(counts: ReadonlyMap<string, number>, show: (name: string) => HTMLElement): HTMLElement {
  const highest = Math.max(...counts.values())
  const rows = [...counts].sort(([, left], [, right]) => right - left)
  const shown = rows.map(([name, count]) => {
    const bar = el("i.bar", { "aria-hidden": "true" })
    bar.style.width = `${(count / highest) * 100}%`
    return el("li", show(name), el("b", showCount(count)), bar)
  })
  return el("ul.counts", ...shown)
}

function healthOf(data: readonly UpstreamBody[]): HTMLElement {
  if (data.length === 0) return el("p.empty", "No upstreams are configured.")
  const by_name = Map.groupBy(data, ({ name }) => name)
  const shown = [...by_name].map(([name, found]) => {
    const worst = found.find(({ state }) => state !== "ready") ?? found[0]
    return el("li", named(name), chip(worst?.state ?? "ready"))
  })
  return el("ul.counts", ...shown)
}

/** Proposed estimates of each model (D92). */
export function estimates(visit: Visit): ViewPart {
  const column = columnsOf(EstimateBody)
  return list(visit, {
    title: "Estimates, last 7 days",
    label: "Estimates",
    columns: [
      column("model", ({ model }) => modelLink(model)),
      ...column.each("operation", "calls", "seen.bytes_per_token", "configured.bytes_per_token"),
      ...column.each("seen.prompt_bytes_per_token", "seen.hidden_output", "configured.hidden_output"),
      ...column.each("error_percent.output", "error_percent.prompt"),
    ],
    empty: "No calls with usage in the last 7 days.",
    load: (signal) => ask<EstimatesBody>("/estimates", signal),
    below: ({ data }) => el("div", ...data.map(suggestionOf)),
  })
}

function suggestionOf({ model, operation, suggestion }: EstimateBody): HTMLElement | null {
  return suggestion === null ? null : el("p.quiet", named(model), `, ${operation}: ${suggestion}`)
}

import type { LatencyBody, OutcomesBody, TimelineBody, UpstreamBody } from "../../../wire/statistics.ts"
import { showCount, showShare, showUsd } from "../../amount.ts"
import { type Metric, metrics, seriesOf, type Totals, totalsOf } from "../../chart.ts"
import { addressOf } from "../../fragment.ts"
import { RANGE_NAMES, type Range, rangeOf, ranges, spanOf } from "../../times.ts"
import { counted, failureWords } from "../../words.ts"
import { ask } from "../admin-api.ts"
import { el, named } from "../element.ts"
import { chip, choice, tile } from "../figures.ts"
import { colourClass, histogram, timePlot } from "../plot.ts"
import { noteAddress, type Part, part, poll, type Visit } from "../visit.ts"
import { auditPart } from "./audit.ts"
import { estimatesPart } from "./estimates.ts"

const splits = ["model", "key", "account"] as const
type Split = (typeof splits)[number]

const REFRESH_MS = 30_000

/** Recent charges, latencies and outcomes, and the current state. */
export function overview(visit: Visit): HTMLElement {
  const { query } = visit.address
  const inTurn = oneByOne()
  let range = rangeOf(query.range)
  let metric: Metric = metrics.find((one) => one === query.metric) ?? "money"
  let split: Split = splits.find((one) => one === query.by) ?? "model"
  let span = spanOf(range, Date.now())
  let timeline: TimelineBody | null = null

  const totals = part(visit, {
    title: null,
    class: "totals",
    content: async () => totalsOfCalls(totalsOf(await timelineNow()), await outcomesNow()),
  })
  const overTime = part(visit, {
    title: "Over time",
    tools: el(
      "div",
      { class: "tools" },
      choice(
        "Metric",
        metrics.map((one) => [one, one] as const),
        metric,
        (chosen) => {
          metric = chosen
          note()
          void overTime.load()
        },
      ),
      choice(
        "Group by",
        splits.map((one) => [one, `by ${one}`] as const),
        split,
        (chosen) => {
          split = chosen
          timeline = null
          note()
          void overTime.load()
        },
      ),
    ),
    content: async (signal) => plotOf(signal, await timelineNow(), metric),
  })
  const latency = part(visit, {
    title: "Latency",
    content: async (signal) => {
      const { ttft, duration } = await inTurn(() => ask<LatencyBody>(`/latency?${search(span)}`, signal))
      return el("div", { class: "pair" }, histogram("First output", ttft), histogram("Whole call", duration))
    },
  })
  const failures = part(visit, {
    title: "Failures",
    content: async () => failuresOf(await outcomesNow(), range, span),
  })
  const upstreams = part(visit, {
    title: "Upstreams",
    tools: el("a", { class: "more", href: addressOf("upstreams") }, "All upstreams"),
    content: async (signal) => healthOf((await ask<{ data: UpstreamBody[] }>("/upstreams", signal)).data),
  })
  const estimates = estimatesPart(visit)
  const parts: readonly Part[] = [totals, overTime, latency, failures, upstreams, estimates]

  let asked: { readonly outcomes: Promise<OutcomesBody> } | null = null
  function outcomesNow(): Promise<OutcomesBody> {
    asked ??= { outcomes: inTurn(() => ask<OutcomesBody>(`/outcomes?${search(span)}`, visit.signal)) }
    return asked.outcomes
  }
  let asking: Promise<TimelineBody> | null = null
  async function timelineNow(): Promise<TimelineBody> {
    if (timeline !== null) return timeline
    const wanted = split
    asking ??= inTurn(() => ask<TimelineBody>(`/timeline?${search({ ...span, by: wanted })}`, visit.signal))
    const found = await asking.finally(() => {
      asking = null
    })
    if (wanted === split) timeline = found
    return found
  }

  async function refresh(): Promise<void> {
    span = spanOf(range, Date.now())
    timeline = null
    asked = null
    await Promise.all(parts.filter(({ element }) => !isInUse(element)).map((one) => one.load()))
  }
  function note(): void {
    noteAddress(visit, {
      range: range === "24h" ? "" : range,
      metric: metric === "money" ? "" : metric,
      by: split === "model" ? "" : split,
    })
  }

  const chooseRange = choice(
    "Range",
    ranges.map((one) => [one, one] as const),
    range,
    (chosen: Range) => {
      range = chosen
      note()
      span = spanOf(range, Date.now())
      timeline = null
      asked = null
      for (const one of [totals, overTime, latency, failures]) void one.load()
    },
  )
  return el(
    "div",
    {},
    el("div", { class: "title" }, el("h1", { tabindex: -1 }, "Overview"), chooseRange),
    totals.element,
    overTime.element,
    latency.element,
    el(
      "div",
      { class: "pair" },
      failures.element,
      el("div", {}, upstreams.element, auditPart(visit).element),
    ),
    estimates.element,
    poll(visit, REFRESH_MS, refresh),
  )
}

/** Runs queries one after another, because each can be expensive. */
function oneByOne() {
  let before: Promise<unknown> = Promise.resolve()
  return <Answer>(question: () => Promise<Answer>): Promise<Answer> => {
    const answer = before.then(question)
    before = answer.catch(() => {})
    return answer
  }
}

/** Content with the focus or under the pointer is not replaced. */
function isInUse(element: HTMLElement): boolean {
  return !element.hasAttribute("aria-busy") && element.matches(":focus-within, :hover")
}

function search(query: Readonly<Record<string, string>>): string {
  return new URLSearchParams(query).toString()
}

function totalsOfCalls(totals: Totals, { data }: OutcomesBody): HTMLElement {
  const failed = data.filter(({ failure }) => failure !== null).reduce((sum, { calls }) => sum + calls, 0)
  const free = data.filter(({ state }) => state === "released").reduce((sum, { calls }) => sum + calls, 0)
  return el(
    "dl",
    { class: "tiles" },
    tile("Charged", showUsd(totals.charge), `${showCount(free)} calls released without a charge`),
    tile("Calls", showCount(totals.calls), "ended"),
    tile(
      "Tokens",
      showCount(totals.prompt_tokens + totals.completion_tokens),
      `${showCount(totals.prompt_tokens)} prompt, ${showCount(totals.cached_tokens)} of them cached; ${showCount(totals.completion_tokens)} completion`,
    ),
    tile("Failed", showShare(failed, totals.calls), counted(failed, "call", showCount(failed))),
  )
}

/** The plot, its legend with totals, and all values as a collapsible table. */
export function plotOf(signal: AbortSignal, timeline: TimelineBody, metric: Metric): HTMLElement {
  const series = seriesOf(timeline, metric)
  if (series.length === 0) return el("p", { class: "empty" }, "No calls ended in this time range.")
  const starts_s = timeline.starts_at.map((at) => Date.parse(at) / 1_000)
  const what = { money: "Money charged", tokens: "Tokens charged", calls: "Calls" }[metric]
  const label = `${what} over time by ${timeline.by}: ${series.map(({ name, total }) => `${name} ${total}`).join(", ")}`
  return el(
    "div",
    {},
    timePlot(signal, { starts_s, step_s: timeline.step_s, series, metric, label }),
    el(
      "ul",
      { class: "key" },
      ...series.map((one, at) =>
        el(
          "li",
          {},
          el("i", { class: colourClass(one, at) }),
          linkOf(timeline.by, one.group, one.name),
          el("b", {}, one.total),
        ),
      ),
    ),
  )
}

function linkOf(by: string, group: string | null, name: string): HTMLElement {
  if (group === null) return el("span", {}, name)
  const href = by === "account" ? addressOf("accounts", group) : addressOf("calls", null, { [by]: group })
  return el("a", { href }, named(name))
}

function failuresOf({ data }: OutcomesBody, range: Range, span: { from: string; to: string }): HTMLElement {
  const counts = new Map<string, number>()
  for (const { failure, calls } of data) {
    if (failure !== null) counts.set(failure, (counts.get(failure) ?? 0) + calls)
  }
  const total = data.reduce((sum, { calls }) => sum + calls, 0)
  if (counts.size === 0)
    return el(
      "p",
      { class: "empty" },
      total === 0 ? "No calls ended in this time range." : `No failures in the ${RANGE_NAMES[range]}.`,
    )
  const rows = [...counts].sort(([, left], [, right]) => right - left)
  const highest = Math.max(...counts.values())
  return el(
    "ul",
    { class: "amounts" },
    ...rows.map(([failure, calls]) => {
      const bar = el("i", {})
      bar.style.width = `${(calls / highest) * 100}%`
      return el(
        "li",
        {},
        el(
          "a",
          { href: addressOf("calls", null, { failure, ...span }), title: failure },
          failureWords(failure),
        ),
        el("b", {}, showCount(calls)),
        el("span", { class: "bar", "aria-hidden": "true" }, bar),
      )
    }),
  )
}

function healthOf(data: readonly UpstreamBody[]): HTMLElement {
  if (data.length === 0) return el("p", { class: "empty" }, "No upstreams are configured.")
  const by_name = Map.groupBy(data, ({ name }) => name)
  return el(
    "ul",
    { class: "health" },
    ...[...by_name].map(([name, found]) => {
      const worst = found.find(({ state }) => state !== "ready") ?? found[0]
      return el("li", {}, named(name), chip(worst?.state ?? "ready"))
    }),
  )
}

import type { DistributionBody } from "../../wire/statistics.ts"
import { showCount, showShare } from "../amount.ts"
import { showDuration } from "../moment.ts"
import { counted } from "../words.ts"
import { el } from "./element.ts"

/** The maximum width of a bar, and the minimum number of bars that the chart has room for. */
const BAR_REM = 3.5
const MIN_BARS = 3

/** A histogram with logarithmic buckets and the percentiles 50, 90 and 99. */
export function histogram(
  name: string,
  { calls, p50_ms, p90_ms, p99_ms, buckets }: DistributionBody,
): HTMLElement {
  const heading = el("h3", {}, name)
  if (calls === 0)
    return el("div", { class: "histogram" }, heading, el("p", { class: "empty" }, "No calls to measure."))
  const highest = Math.max(...buckets.map((bucket) => bucket.calls))
  const bars = buckets.map(({ from_ms, below_ms, calls: count }) => {
    const words = `${showDuration(from_ms)} to ${showDuration(below_ms)}: ${counted(count, "call", showCount(count))}, ${showShare(count, calls)}`
    const bar = el("i", {})
    bar.style.height = `${(count / highest) * 100}%`
    return el("li", { title: words }, bar, el("span", { class: "unseen" }, words))
  })
  const scale = el(
    "div",
    {},
    el("ol", { class: "bars", "aria-label": `${name}, by duration` }, ...bars),
    el(
      "div",
      { class: "ends", "aria-hidden": "true" },
      el("span", {}, showDuration(buckets[0]?.from_ms ?? 0)),
      el("span", {}, showDuration(buckets.at(-1)?.below_ms ?? 0)),
    ),
  )
  scale.style.maxWidth = `${Math.max(buckets.length, MIN_BARS) * BAR_REM}rem`
  return el(
    "div",
    { class: "histogram" },
    heading,
    el("dl", {}, ...percentile("p50", p50_ms), ...percentile("p90", p90_ms), ...percentile("p99", p99_ms)),
    scale,
  )
}

function percentile(name: string, ms: number | null): HTMLElement[] {
  return [el("div", {}, el("dt", {}, name), el("dd", {}, ms === null ? "–" : showDuration(ms)))]
}

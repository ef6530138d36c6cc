import uPlot from "uplot"
import type { DistributionBody } from "../../wire/statistics.ts"
import { showAxisCounts, showAxisUsd, showCount, showShare } from "../amount.ts"
import { type Metric, type Series, sparkPoints, stacked } from "../chart.ts"
import { showAxisTimes, showDuration, showMoment } from "../times.ts"
import { counted } from "../words.ts"
import { el, named, svg } from "./element.ts"

const HEIGHT = 240
/** The number of series colours. The group of all others has its own colour. */
const COLOURS = 6

interface PlotOptions {
  /** When each step starts, in seconds since 1970. */
  readonly starts_s: readonly number[]
  readonly step_s: number
  readonly series: readonly Series[]
  readonly metric: Metric
  /** A text description for screen readers. */
  readonly label: string
}

/** The CSS class for the colour of a series. */
export function colourClass({ group }: Series, at: number): string {
  return group === null ? "colour-rest" : `colour-${at % COLOURS}`
}

/**
 * Stacked bars over time. The chart follows the width of its container and the colour scheme. The arrow keys move along the steps.
 */
export function timePlot(signal: AbortSignal, options: PlotOptions): HTMLElement {
  const tip = el("div", { class: "tip", role: "status", hidden: true })
  const place = el("div", {
    class: "plot",
    role: "img",
    "aria-label": options.label,
    tabindex: 0,
    keydown: walk,
    blur: leave,
  })
  const frame = el("div", { class: "plot-frame" }, place, tip)
  let plot: uPlot | null = null

  function walk(event: Event): void {
    const step = event instanceof KeyboardEvent ? (STEPS[event.key] ?? 0) : 0
    if (plot === null || step === 0) return
    event.preventDefault()
    const { starts_s, step_s } = options
    const at = stepAt(plot, starts_s)
    const next_s =
      starts_s[at < 0 ? starts_s.length - 1 : Math.min(Math.max(at + step, 0), starts_s.length - 1)]
    if (next_s !== undefined) plot.setCursor({ left: plot.valToPos(next_s + step_s / 2, "x"), top: 0 })
  }
  function leave(): void {
    plot?.setCursor({ left: -10, top: -10 })
  }
  function draw(): void {
    plot?.destroy()
    plot = new uPlot(optionsOf(place, options, tip), dataOf(options), place)
  }
  const resize = new ResizeObserver(() => {
    if (place.clientWidth === 0) return
    if (plot === null) draw()
    else if (plot.width !== place.clientWidth) plot.setSize({ width: place.clientWidth, height: HEIGHT })
  })
  resize.observe(place)
  const scheme = matchMedia("(prefers-color-scheme: dark)")
  scheme.addEventListener("change", () => place.isConnected && draw(), { signal })
  signal.addEventListener("abort", () => {
    resize.disconnect()
    plot?.destroy()
  })
  return frame
}

/** The tallest stack first, so that lower stacks are drawn over it. */
function dataOf({ starts_s, series }: PlotOptions): uPlot.AlignedData {
  return [
    [...starts_s],
    ...stacked(series)
      .map((values) => [...values])
      .reverse(),
  ]
}

function optionsOf(place: HTMLElement, options: PlotOptions, tip: HTMLElement): uPlot.Options {
  const { series, metric, starts_s, step_s } = options
  const style = getComputedStyle(place)
  const [quiet, line] = [style.getPropertyValue("--quiet"), style.getPropertyValue("--line")]
  const axis = {
    stroke: quiet,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1 },
    font: "12px system-ui",
  }
  const show = metric === "money" ? showAxisUsd : showAxisCounts
  const first = starts_s[0] ?? 0
  const last = (starts_s.at(-1) ?? 0) + step_s
  const bars = uPlot.paths.bars?.({ size: [0.8, 48], align: 1 })
  return {
    width: place.clientWidth,
    height: HEIGHT,
    padding: [12, 24, 0, 0],
    legend: { show: false },
    cursor: { points: { show: false }, drag: { x: false, y: false }, y: false },
    scales: {
      x: { time: true, range: [first, last] },
      y: { range: (_, __, highest) => [0, highest > 0 ? highest * 1.08 : 1] },
    },
    axes: [
      { ...axis, grid: { show: false }, space: 72, values: (_, ticks) => [...showAxisTimes(ticks)] },
      { ...axis, size: (_, labels) => widthFor(labels ?? []), values: (_, ticks) => [...show(ticks)] },
    ],
    series: [
      {},
      ...series
        .map((one, at) => {
          const colour = style.getPropertyValue(`--${colourClass(one, at)}`)
          return {
            fill: colour,
            width: 0,
            points: { show: false },
            ...(bars === undefined ? {} : { paths: bars }),
          }
        })
        .reverse(),
    ],
    hooks: { setCursor: [(plot) => showTip(plot, options, tip)] },
  }
}

/** In pixels: digits of 12 px are at most 7 px wide, and 20 px separate the labels from the plot. */
function widthFor(labels: readonly string[]): number {
  return Math.max(56, 20 + 7 * Math.max(...labels.map(({ length }) => length)))
}

const STEPS: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 }

/** The step under the cursor; -1 without one. */
function stepAt(plot: uPlot, starts_s: readonly number[]): number {
  const { left = -1 } = plot.cursor
  return left < 0 ? -1 : starts_s.findLastIndex((start) => start <= plot.posToVal(left, "x"))
}

/** The exact values under the cursor. */
function showTip(plot: uPlot, { series, starts_s, step_s }: PlotOptions, tip: HTMLElement): void {
  const { left = -1 } = plot.cursor
  const at = stepAt(plot, starts_s)
  const start_s = starts_s[at]
  tip.hidden = start_s === undefined
  if (start_s === undefined) return
  const shown = series.flatMap((one, place) =>
    (one.values[at] ?? 0) === 0
      ? []
      : [
          el(
            "li",
            {},
            el("i", { class: colourClass(one, place) }),
            named(one.name),
            el("b", {}, one.shown[at] ?? ""),
          ),
        ],
  )
  tip.replaceChildren(
    el("p", {}, `${showMoment(new Date(start_s * 1_000).toISOString())}, ${showDuration(step_s * 1_000)}`),
    shown.length === 0 ? el("p", { class: "quiet" }, "nothing") : el("ul", {}, ...shown),
  )
  const edge = plot.over.offsetLeft + left
  const is_right = left > plot.over.clientWidth / 2
  tip.style.left = is_right ? "" : `${edge + 12}px`
  tip.style.right = is_right ? `${plot.root.clientWidth - edge + 12}px` : ""
}

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

const [SPARK_WIDTH, SPARK_HEIGHT] = [120, 28]

/** A line without axes that shows a trend; `label` has the amount. */
export function spark(values: readonly number[], label: string): SVGSVGElement {
  const points = sparkPoints(values, SPARK_WIDTH, SPARK_HEIGHT - 4)
  return svg(
    "svg",
    {
      class: "spark",
      viewBox: `0 -2 ${SPARK_WIDTH} ${SPARK_HEIGHT}`,
      role: "img",
      "aria-label": label,
      preserveAspectRatio: "none",
    },
    svg("polygon", { points: `0,${SPARK_HEIGHT - 4} ${points} ${SPARK_WIDTH},${SPARK_HEIGHT - 4}` }),
    svg("polyline", { points }),
  )
}

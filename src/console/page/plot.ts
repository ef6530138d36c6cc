import uPlot from "uplot"
import type { DistributionBody } from "../../wire/statistics.ts"
import { showAxisCounts, showAxisUsd, showCount, showShare } from "../amount.ts"
import { type Metric, type Series, sparkArea, stacked } from "../chart.ts"
import { showAxisTimes, showDuration } from "../times.ts"
import { el } from "./element.ts"
import { detail, duration } from "./formats.ts"

/** The number of series colours. The group of all others has its own colour. */
const COLOURS = 6

interface PlotOptions {
  readonly height: number
  /** The start of each step, in seconds since 1970 if they are times, and the end of the last one. */
  readonly starts: readonly number[]
  readonly end: number
  readonly is_time: boolean
  readonly series: readonly Series[]
  showX(ticks: readonly number[]): readonly string[]
  showY(ticks: readonly number[]): readonly string[]
  /** The name of a step in the legend. */
  showStep(at: number): string
  named?(series: Series): HTMLElement
  /** A text description for screen readers. */
  readonly label: string
}

const STEPS: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 }

/** Stacked bars. The legend has the totals, or the values of the step under the pointer; arrow keys move it. */
function barPlot(signal: AbortSignal, options: PlotOptions): HTMLElement {
  const { starts, end, label, height } = options
  const place = el("div", { role: "img", "aria-label": label, tabindex: 0, keydown: walk, blur: leave })
  place.style.minHeight = `${height}px`
  const frame = el("div.plot", place)
  let plot: uPlot | null = null

  function walk(event: Event): void {
    const step = event instanceof KeyboardEvent ? (STEPS[event.key] ?? 0) : 0
    if (plot === null || step === 0) return
    event.preventDefault()
    const next = Math.min(Math.max((plot.legend.idx ?? starts.length) + step, 0), starts.length - 1)
    const middle = ((starts[next] ?? end) + (starts[next + 1] ?? end)) / 2
    plot.setCursor({ left: plot.valToPos(middle, "x"), top: 0 })
  }
  function leave(): void {
    plot?.setCursor({ left: -10, top: -10 })
  }
  function draw(): void {
    plot?.destroy()
    // Outside of the image, whose links nobody would hear of.
    const legend = { mount: (_: uPlot, table: HTMLElement) => frame.append(table) }
    plot = new uPlot(
      { ...optionsOf(place, options), legend },
      [[...starts], ...stacked(options.series)],
      place,
    )
  }
  const resize = new ResizeObserver(() => {
    if (place.clientWidth === 0) return
    if (plot === null) draw()
    else if (plot.width !== place.clientWidth) plot.setSize({ width: place.clientWidth, height })
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

interface TimePlotOptions extends Pick<PlotOptions, "series" | "showStep" | "label"> {
  readonly starts_at: readonly string[]
  readonly step_s: number
  readonly metric: Metric
  named?(series: Series): HTMLElement
}

/** A plot of steps of time, with the totals of its series in its description. */
export function timePlot(
  signal: AbortSignal,
  { starts_at, step_s, metric, label, ...options }: TimePlotOptions,
): HTMLElement {
  const starts = starts_at.map((at) => Date.parse(at) / 1_000)
  const amounts = options.series.map(({ name, total }) => `${name || "all"} ${total}`).join(", ")
  return barPlot(signal, {
    ...options,
    height: 240,
    starts,
    end: (starts.at(-1) ?? 0) + step_s,
    is_time: true,
    showX: showAxisTimes,
    showY: metric === "money" ? showAxisUsd : showAxisCounts,
    label: `${label}: ${amounts}`,
  })
}

function optionsOf(place: HTMLElement, options: PlotOptions): uPlot.Options {
  const { height, starts, end, is_time, series, showX, showY, showStep, named: nameOf } = options
  const lines = { stroke: paint(place, "--line"), width: 1 }
  const axis = { stroke: paint(place, "--quiet"), grid: lines, ticks: lines, font: "12px system-ui" }
  const bars = uPlot.paths.bars?.({ size: [0.8, 48], align: 1 })
  return {
    width: place.clientWidth,
    height,
    // Ticks at whole hours and days of the times that are shown.
    tzDate: (at_s) => uPlot.tzDate(new Date(at_s * 1_000), "Etc/UTC"),
    padding: [12, 32, 0, 0],
    cursor: {
      points: { show: false },
      drag: { x: false, y: false },
      y: false,
      // A click on a series would hide it, and not what is stacked on it.
      bind: { click: () => null },
      // The step under the pointer, and not the nearest start of one.
      dataIdx: (_, __, nearest, x) => Math.max(0, (starts[nearest] ?? 0) > x ? nearest - 1 : nearest),
    },
    scales: {
      x: { time: is_time, range: [starts[0] ?? 0, end] },
      y: { range: (_, __, highest) => [0, highest > 0 ? highest * 1.08 : 1] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 72,
        size: is_time ? 50 : 30,
        values: (_, ticks) => [...showX(ticks)],
      },
      { ...axis, size: (_, labels) => widthFor(labels ?? []), values: (_, ticks) => [...showY(ticks)] },
    ],
    series: [
      { label: "Shown", value: (_, __, ___, at) => (at === null ? "total" : showStep(at)) },
      ...series.map((one, at) => ({
        label: nameOf?.(one) ?? one.name,
        value: (_: uPlot, __: number, ___: number, step: number | null) =>
          step === null ? one.total : (one.shown[step] ?? ""),
        fill: paint(place, one.group === null ? "--colour-rest" : `--colour-${at % COLOURS}`),
        width: 0,
        points: { show: false },
        ...(bars === undefined ? {} : { paths: bars }),
      })),
    ],
  }
}

/** In pixels: digits of 12 px are at most 7 px wide, and 20 px separate the labels from the plot. */
function widthFor(labels: readonly string[]): number {
  return Math.max(56, 20 + 7 * Math.max(...labels.map(({ length }) => length)))
}

/** The value of a colour's variable in the current scheme, which a canvas can read. */
function paint(place: HTMLElement, variable: string): string {
  place.style.color = `var(${variable})`
  const { color } = getComputedStyle(place)
  place.style.color = ""
  return color
}

/** A histogram with logarithmic buckets and the percentiles 50, 90 and 99. */
export function histogram(signal: AbortSignal, name: string, distribution: DistributionBody): HTMLElement {
  const { calls, p50_ms, p90_ms, p99_ms, buckets } = distribution
  if (calls === 0) return el("div", el("h3", name), el("p.empty", "No calls to measure."))
  const values = buckets.map((bucket) => bucket.calls)
  const shown = values.map((value) => `${showCount(value)}, ${showShare(value, calls)}`)
  const bounds = [...buckets.map(({ from_ms }) => from_ms), buckets.at(-1)?.below_ms ?? 0].map(showDuration)
  const showStep = (at: number) => `${bounds[at]} to ${bounds[at + 1]}`
  const plot = barPlot(signal, {
    height: 160,
    starts: [...buckets.keys()],
    end: buckets.length,
    is_time: false,
    series: [{ name: "calls", group: "calls", values, shown, total: showCount(calls) }],
    showX: (ticks) => ticks.map((tick) => bounds[tick] ?? ""),
    showY: showAxisCounts,
    showStep,
    label: `${name}, calls by duration: ${shown.map((text, at) => `${showStep(at)}: ${text}`).join("; ")}`,
  })
  const percentiles = { p50: p50_ms, p90: p90_ms, p99: p99_ms }
  const facts = Object.entries(percentiles).map(([label, ms]) => [label, duration(ms)] as const)
  return el("div", el("h3", name), detail("percentiles", facts), plot)
}

/** An area without axes that shows a trend; `label` has the amount. */
export function spark(values: readonly number[], label: string): HTMLElement {
  const area = el("span.spark", { role: "img", "aria-label": label })
  area.style.clipPath = sparkArea(values)
  return area
}

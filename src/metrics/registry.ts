import { turns } from "../turns.ts"
import { help, type MetricSeries } from "./help.ts"

/** Metrics in the Prometheus text format. prom-client takes 3 us more for a call, which is 4 % of it. */

class CounterCell {
  value = 0

  add(count = 1): void {
    this.value += count
  }
}

/** The observations of one combination of labels. Not printed while empty. */
class HistogramCell {
  readonly bounds: readonly number[]
  /** The number of values per bucket; the last bucket is for values above all bounds. */
  readonly counts: Float64Array
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number): void {
    const { bounds, counts } = this
    let at = 0
    while (at < bounds.length && value > (bounds[at] ?? Number.POSITIVE_INFINITY)) at += 1
    counts[at] = (counts[at] ?? 0) + 1
    this.sum += value
  }

  /** Cumulative counts per bound; the last one is the total. */
  get cumulative(): readonly number[] {
    let sum = 0
    return Array.from(this.counts, (count) => (sum += count))
  }
}

type MetricLabel = readonly [name: string, value: string]

/** One series: its labels, and its number or its observations. */
export interface MetricPoint {
  readonly labels: readonly MetricLabel[]
  readonly value: number | HistogramCell
}

interface MetricHead {
  readonly name: string
  readonly help: string
  readonly type: "counter" | "gauge" | "histogram"
}

export interface MetricFamily extends MetricHead {
  readonly points: readonly MetricPoint[]
}

/** The metrics of one process, in the order in which they were added. */
export class Registry {
  readonly #metrics: (MetricHead & { points(): readonly MetricPoint[] })[] = []
  /** Labels of every series. */
  readonly #shared: readonly MetricLabel[]
  /** The texts of labels, which take most of the time of a scrape. */
  readonly #texts = new WeakMap<readonly MetricLabel[], string>()

  constructor(shared: Readonly<Record<string, string>> = {}) {
    this.#shared = Object.entries(shared)
  }

  /** Without labels, it is printed from the start. */
  counter(series: MetricSeries): Cells<CounterCell> {
    const { labels, ...head } = partsOf(series)
    const cells = new Cells(labels, () => new CounterCell())
    if (labels.length === 0) cells.of()
    const points = () => cells.all.map(({ labels, cell: { value } }) => ({ labels, value }))
    this.#metrics.push({ ...head, type: "counter", points })
    return cells
  }

  histogram(series: MetricSeries, bounds: readonly number[]): Cells<HistogramCell> {
    const { labels, ...head } = partsOf(series)
    const cells = new Cells(labels, () => new HistogramCell(bounds))
    const observed = () => cells.all.filter(({ cell }) => cell.counts.some((count) => count > 0))
    const points = () => observed().map(({ labels, cell }) => ({ labels, value: cell }))
    this.#metrics.push({ ...head, type: "histogram", points })
    return cells
  }

  /** A number that is kept elsewhere. */
  gauge(series: MetricSeries, read: () => number): void {
    this.gauges(series, () => [[read()]])
  }

  /** Several numbers, each followed by the values of the labels. Not printed while there are none. */
  gauges(
    series: MetricSeries,
    read: () => Iterable<readonly [value: number, ...of: readonly string[]]>,
  ): void {
    const { labels, ...head } = partsOf(series)
    const points = () => Array.from(read(), ([value, ...of]) => ({ labels: pairs(labels, of), value }))
    this.#metrics.push({ ...head, type: head.name.endsWith("_total") ? "counter" : "gauge", points })
  }

  /** The values of all metrics now, with the labels of every series behind their own. */
  get families(): readonly MetricFamily[] {
    return this.#metrics.flatMap(({ name, help, type, points }) => {
      const shown = points().map(({ labels, value }) => ({ labels: [...labels, ...this.#shared], value }))
      return type === "gauge" && shown.length === 0 ? [] : { name, help, type, points: shown }
    })
  }

  async print(): Promise<string> {
    return (await Array.fromAsync(this.parts())).join("")
  }

  /** The text in parts, between which the event loop has turns. */
  async *parts(): AsyncGenerator<string, void, void> {
    let texts: string[] = []
    let is_first = true
    const turn = turns()
    for (const { name, help, type, points } of this.#metrics) {
      const shown = points()
      if (type === "gauge" && shown.length === 0) continue
      texts.push(`${is_first ? "" : "\n"}# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`)
      is_first = false
      for (const { labels, value } of shown) {
        const text = this.#textOf(labels)
        texts.push(typeof value === "number" ? line(name, text, value) : histogramLines(name, text, value))
        const next = turn()
        if (next === null) continue
        yield texts.join("")
        texts = []
        await next
      }
    }
    yield texts.join("")
  }

  #textOf(labels: readonly MetricLabel[]): string {
    let text = this.#texts.get(labels)
    if (text === undefined) {
      const all = [...labels, ...this.#shared].map(([label, value]) => `${label}="${escaped(value)}"`)
      text = all.join(",")
      this.#texts.set(labels, text)
    }
    return text
  }
}

const escaped = (text: string) => text.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n")

function partsOf(series: MetricSeries) {
  const [name = "", labels] = series.split(/[{}]/)
  return { name, help: help[series], labels: labels?.split(",") ?? [] }
}

function histogramLines(name: string, labels: string, { bounds, cumulative, sum }: HistogramCell): string {
  const buckets = cumulative.map((value, at) =>
    line(`${name}_bucket`, `le="${bounds[at] ?? "+Inf"}"${labels && ","}${labels}`, value),
  )
  const count = cumulative.at(-1) ?? 0
  return [...buckets, line(`${name}_sum`, labels, sum), line(`${name}_count`, labels, count)].join("")
}

function line(name: string, labels: string, value: number): string {
  return `${name}${labels && `{${labels}}`} ${value}\n`
}

/** Labels with the values in their order; undefined omits one. */
function pairs(names: readonly string[], values: readonly (string | undefined)[]): MetricLabel[] {
  return names.flatMap((name, at): MetricLabel[] => {
    const value = values[at]
    return value === undefined ? [] : [[name, value]]
  })
}

/** Below the values of the labels so far. */
interface Branch<Cell> {
  readonly next: Map<string | undefined, Branch<Cell>>
  cell: Cell | null
}

/** Cells by the values of their labels, with a map for each label: a key of joined values would be made and hashed for every call. */
class Cells<Cell> {
  readonly #names: readonly string[]
  readonly #make: () => Cell
  readonly #root: Branch<Cell> = { next: new Map(), cell: null }
  readonly all: { readonly labels: readonly MetricLabel[]; readonly cell: Cell }[] = []

  constructor(names: readonly string[], make: () => Cell) {
    this.#names = names
    this.#make = make
  }

  /** Values in the order of the labels; undefined omits one. */
  of(...values: readonly (string | undefined)[]): Cell {
    let branch = this.#root
    for (const value of values) {
      let next = branch.next.get(value)
      if (next === undefined) {
        next = { next: new Map(), cell: null }
        branch.next.set(value, next)
      }
      branch = next
    }
    if (branch.cell === null) {
      branch.cell = this.#make()
      this.all.push({ labels: pairs(this.#names, values), cell: branch.cell })
    }
    return branch.cell
  }
}

import { Counter, Histogram, type Registry } from "prom-client"

/** Histogram buckets, in the unit of the metric. */

/** The buckets that the OpenTelemetry GenAI conventions recommend (D53). */
export const OPERATION_S = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
]
export const FIRST_TOKEN_S = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
]
export const PER_TOKEN_S = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5]
export const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power)

/** For the gateway's own latencies: from 125 microseconds to 4 seconds. */
export const OWN_S = Array.from({ length: 16 }, (_, power) => 0.000125 * 2 ** power)
/** For the number of items in a batched ledger statement. */
export const BATCH = [1, 2, 4, 8, 16, 32, 64, 128, 256]

/**
 * Metrics that change with every call: plain numbers that are incremented directly and read by the library at a scrape.
 * Measured: the library's own `inc` and `observe` hash the labels each time, which takes 40 us per call for about twelve
 * metrics; these take 1 us.
 */

/** The value of one combination of labels. */
export interface CounterCell {
  value: number
}

interface CellOptions<Label extends string> {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly Label[]
  readonly registry: Registry
}

type CellLabels<Label extends string> = Partial<Record<Label, string>>

/** A counter whose cells are looked up by label values in order; undefined omits a label. */
export class CellCounter<Label extends string> extends Counter<Label> {
  readonly #cells = new Cells<Label, CounterCell>(() => ({ value: 0 }))
  readonly #label_names: readonly Label[]

  constructor({ name, help, labelNames, registry }: CellOptions<Label>) {
    super({ name, help, labelNames: [...labelNames], registers: [registry] })
    this.#label_names = labelNames
  }

  cell(...values: readonly (string | undefined)[]): CounterCell {
    return this.#cells.at(this.#label_names, values)
  }

  override async get() {
    this.reset()
    for (const { labels, cell } of this.#cells.all()) this.inc(labels, cell.value)
    return super.get()
  }
}

/** The observations of one combination of labels. Not printed while empty. */
export class HistogramCell {
  readonly #bounds: readonly number[]
  /** The number of values per bucket; the last bucket is for values above all bounds. */
  readonly #counts: Float64Array
  sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number): void {
    const bounds = this.#bounds
    let at = 0
    while (at < bounds.length && value > (bounds[at] ?? Number.POSITIVE_INFINITY)) at += 1
    this.#counts[at] = (this.#counts[at] ?? 0) + 1
    this.sum += value
  }

  /** Cumulative counts per bound; the last one is the total. */
  get cumulative(): readonly number[] {
    let sum = 0
    return Array.from(this.#counts, (count) => (sum += count))
  }
}

/** A histogram whose cells are looked up like those of a `CellCounter`. */
export class CellHistogram<Label extends string> extends Histogram<Label> {
  readonly #cells: Cells<Label, HistogramCell>
  readonly #options: CellOptions<Label>
  readonly #bounds: readonly number[]

  constructor(options: CellOptions<Label> & { readonly buckets: readonly number[] }) {
    const { name, help, labelNames, registry, buckets } = options
    super({ name, help, labelNames: [...labelNames], buckets: [...buckets], registers: [registry] })
    this.#options = options
    this.#bounds = buckets
    this.#cells = new Cells(() => new HistogramCell(buckets))
  }

  cell(...values: readonly (string | undefined)[]): HistogramCell {
    return this.#cells.at(this.#options.labelNames, values)
  }

  /** Called by the library when it prints text. */
  async getForPromString() {
    const { name, help } = this.#options
    const values = this.#cells.all().flatMap(({ labels, cell }) => {
      const { cumulative, sum } = cell
      const count = cumulative.at(-1) ?? 0
      if (count === 0) return []
      return [
        ...cumulative.map((value, at) => ({
          metricName: `${name}_bucket`,
          labels: { le: this.#bounds[at] ?? "+Inf", ...labels },
          value,
        })),
        { metricName: `${name}_sum`, labels, value: sum },
        { metricName: `${name}_count`, labels, value: count },
      ]
    })
    return { name, help, type: "histogram", values }
  }
}

interface Branch<Value> {
  readonly next: Map<string | undefined, Branch<Value>>
  value: Value | undefined
}

/** Values by several words, with a map for each word: a key joined of the words would be made and hashed for every call. */
export class Tree<Value> {
  readonly #root: Branch<Value> = { next: new Map(), value: undefined }

  get(words: readonly (string | undefined)[]): Value | undefined {
    let branch: Branch<Value> | undefined = this.#root
    for (let at = 0; at < words.length && branch !== undefined; at++) branch = branch.next.get(words[at])
    return branch?.value
  }

  set(words: readonly (string | undefined)[], value: Value): void {
    let branch = this.#root
    for (const word of words) {
      const next = branch.next.get(word) ?? { next: new Map(), value: undefined }
      branch.next.set(word, next)
      branch = next
    }
    branch.value = value
  }
}

/** Cells by label values. */
class Cells<Label extends string, Cell> {
  readonly #make: () => Cell
  readonly #tree = new Tree<Cell>()
  readonly #all: { readonly labels: CellLabels<Label>; readonly cell: Cell }[] = []

  constructor(make: () => Cell) {
    this.#make = make
  }

  at(names: readonly Label[], values: readonly (string | undefined)[]): Cell {
    return this.#tree.get(values) ?? this.#add(names, values)
  }

  all() {
    return this.#all
  }

  #add(names: readonly Label[], values: readonly (string | undefined)[]): Cell {
    const labels: CellLabels<Label> = {}
    names.forEach((name, at) => {
      const value = values[at]
      if (value !== undefined) labels[name] = value
    })
    const cell = this.#make()
    this.#all.push({ labels, cell })
    this.#tree.set(values, cell)
    return cell
  }
}

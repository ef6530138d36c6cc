/** The data of a report. The page that shows it knows nothing about benchmarks. */
export interface Report {
  readonly title: string
  /** When, on what, how long. */
  readonly facts: readonly string[]
  /** Whether the run is good, and why not. */
  readonly verdict: {
    readonly good: boolean
    readonly text: string
    readonly faults: readonly string[]
    /** Limits of the figures, which do not fail the run. */
    readonly warnings: readonly string[]
  }
  readonly tables: readonly Table[]
  readonly sections: readonly Section[]
}

export interface Section {
  readonly title: string
  readonly text: string
  readonly tables: readonly Table[]
  readonly charts: readonly Chart[]
}

export interface Table {
  readonly caption: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly Cell[])[]
}

/** A text, or one with a mark: good, bad, or neither. */
export type Cell = string | { readonly text: string; readonly mark: "good" | "bad" | "none" }

/** One plot; all series have the same x values. */
export interface Chart {
  readonly title: string
  readonly x: Axis
  readonly y: Axis
  readonly places: readonly number[]
  readonly series: readonly Series[]
}

export interface Axis {
  readonly label: string
  /** `percentile`: places are nines, 1 for 90 %, 2 for 99 %. `logarithmic`: of positive numbers only. */
  readonly scale: "linear" | "percentile" | "logarithmic"
}

export interface Series {
  readonly name: string
  /** A colour of the page: that of a target, or by the number of the series. */
  readonly colour: "direct" | "bare" | "tollgate" | "first" | "second"
  readonly values: readonly (number | null)[]
}

/** What a report shows, whatever was measured: data only, so that the page needs no knowledge of a benchmark. */
export interface Report {
  readonly title: string
  /** When, on what, how long. */
  readonly facts: readonly string[]
  /** The last word: whether the run is good, and why not. */
  readonly verdict: {
    readonly good: boolean
    readonly text: string
    readonly faults: readonly string[]
    /** What to know about figures that do not make the run fail. */
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

/** One plot; all series have the same places. */
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
  /** Which of the page's colours: that of a target, or the number of the series. */
  readonly colour: "direct" | "bare" | "tollgate" | "first" | "second"
  readonly values: readonly (number | null)[]
}

import { type Child, el, replaceElement } from "./element.ts"

export interface Column<Row> {
  readonly title: string
  /** Numbers and amounts stand on the right. */
  readonly right?: boolean
  /** Left out where there is little room. */
  readonly minor?: boolean
  cell(row: Row): Child
}

/** A table's rows by key: those that stay keep their elements, so that what polls does not flicker or lose the focus. */
export interface Table<Row> {
  readonly element: HTMLElement
  show(rows: readonly Row[]): void
}

export interface TableOptions<Row> {
  readonly label: string
  readonly columns: readonly Column<Row>[]
  key(row: Row): string
  /** What changes in a row; a row of the same mark is left alone. */
  mark?(row: Row): string
  /** What stands there when there are no rows. */
  readonly empty: Child
}

/**
 * A table that becomes a list of cards on a narrow screen. Its rows' links are walked with the arrow keys. The roles repeat the tags,
 * for a table that is laid out as something else is otherwise no table to a screen reader.
 */
export function table<Row>({
  label,
  columns,
  key,
  mark = JSON.stringify,
  empty,
}: TableOptions<Row>): Table<Row> {
  const body = el("tbody", { role: "rowgroup" })
  const head = el(
    "thead",
    { role: "rowgroup" },
    el(
      "tr",
      { role: "row" },
      ...columns.map(({ title, right }) =>
        el("th", { scope: "col", role: "columnheader", class: right ? "right" : null }, title),
      ),
    ),
  )
  const grid = el("table", { role: "table", "aria-label": label, keydown: walk }, head, body)
  const nothing = el("p", { class: "empty" }, empty)
  const element = el("div", { class: "table" }, nothing)
  const known = new Map<string, { mark: string; row: HTMLTableRowElement }>()

  function show(rows: readonly Row[]): void {
    element.replaceChildren(rows.length === 0 ? nothing : grid)
    const keys = new Set(rows.map(key))
    for (const [id, { row }] of known) {
      if (keys.has(id)) continue
      row.remove()
      known.delete(id)
    }
    for (const [at, row] of rows.entries()) {
      const id = key(row)
      const now = mark(row)
      const before = known.get(id)
      const made = before?.mark === now ? before.row : rowOf(row, columns)
      if (before !== undefined && before.row !== made) replaceElement(before.row, made)
      known.set(id, { mark: now, row: made })
      if (body.children[at] !== made) body.insertBefore(made, body.children[at] ?? null)
    }
  }
  return { element, show }
}

function rowOf<Row>(row: Row, columns: readonly Column<Row>[]): HTMLTableRowElement {
  return el(
    "tr",
    { role: "row" },
    ...columns.map(({ title, right, minor, cell }) => {
      const name = [right ? "right" : "", minor ? "minor" : ""].join(" ").trim()
      return el("td", { role: "cell", "data-title": title, class: name === "" ? null : name }, cell(row))
    }),
  )
}

/** The arrow keys go from a link or button of one row to that of the next. */
function walk(event: Event): void {
  if (!(event instanceof KeyboardEvent) || !(event.target instanceof HTMLElement)) return
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
  const row = event.target.closest("tr")
  if (step === 0 || row === null || !(event.currentTarget instanceof HTMLElement)) return
  const rows = [...event.currentTarget.querySelectorAll("tbody tr")]
  const place = [...row.querySelectorAll("a, button")].indexOf(event.target)
  const next = rows[rows.indexOf(row) + step]?.querySelectorAll<HTMLElement>("a, button")
  const target = next?.[place] ?? next?.[0]
  if (target === undefined) return
  event.preventDefault()
  target.focus()
}

import { type Child, el, replaceElement } from "./element.ts"

export interface Column<Row> {
  readonly title: string
  /** Right-aligned, for numbers and amounts. */
  readonly right?: boolean
  /** Hidden on narrow screens. */
  readonly minor?: boolean
  cell(row: Row): Child
}

/** Table rows by key. Unchanged rows keep their elements, so that polling does not cause flicker or move the focus. */
export interface Table<Row> {
  readonly element: HTMLElement
  show(rows: readonly Row[]): void
}

interface TableOptions<Row> {
  readonly label: string
  readonly columns: readonly Column<Row>[]
  key(row: Row): string
  /** A row is replaced only if its mark changes. */
  mark?(row: Row): string
  /** The text for an empty table. */
  readonly empty: Child
}

/**
 * A table that becomes a list of cards on a narrow screen. The arrow keys move between the links of its rows. The roles repeat the tags,
 * because screen readers ignore the tags of a table with another layout.
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

/** The arrow keys move from a link or button to the same one in the next row. */
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

import type { Static, TObject, TProperties } from "@sinclair/typebox"
import { eachOf, type FieldPath, fieldAt } from "../../wire/field.ts"
import { addressOf, type PageQuery } from "../fragment.ts"
import type { ListBody } from "./admin-api.ts"
import { button, type Child, el, replaceElement } from "./element.ts"
import { brief, shownValue } from "./formats.ts"
import { part, type ViewPart, type Visit } from "./part.ts"

/** A title, what is shown of a row, and whether it is a number, which is aligned right. */
export type PageColumn<Row> = readonly [title: string, cell: (row: Row) => Child, right?: "right"]

/** A function that makes columns of the fields of a schema, which says their titles, and their units unless `cell` is given. */
export function columnsOf<P extends TProperties>(schema: TObject<P>) {
  type Row = Static<TObject<P>>
  const plain = (path: FieldPath<P>) => (row: Row) => shownValue(schema, row, path, brief)
  return eachOf((path: FieldPath<P>, cell: (row: Row) => Child = plain(path)): PageColumn<Row> => {
    const { title, unit } = fieldAt(schema, path)
    return unit === "text" || unit === "time" ? [title, cell] : [title, cell, "right"]
  })
}

interface TableOptions<Row> {
  readonly label: string
  readonly columns: readonly PageColumn<Row>[]
  /** Tells a row from the others; by default the whole row. An unchanged row keeps its elements, so that polling does not cause flicker or move the focus. */
  key?(row: Row): string
  /** A row is replaced only if its mark changes. */
  mark?(row: Row): string
  readonly empty: string
  /** If the server sorts: the fields of columns by their places; a column without one cannot be sorted. */
  readonly sort?: {
    readonly fields: readonly (string | null)[]
    /** The field of the order, with a minus before it for a descending one. */
    readonly order: string
    choose(order: string): void
  }
}

/**
 * A table that becomes a list of cards where it has no room. A click on the title of a column sorts the rows. The arrow keys move
 * between the links of the rows. The roles repeat the tags, because screen readers ignore the tags of a table with another layout.
 */
export function table<Row>(options: TableOptions<Row>) {
  const { label, columns, key = JSON.stringify, mark = JSON.stringify, empty, sort: server } = options
  const body = el("tbody", { role: "rowgroup" })
  const titles = columns.map(([title, , right = null], at) =>
    el(
      "th",
      { scope: "col", role: "columnheader", class: right },
      server?.fields[at] === null ? title : button(title, () => sort(at), { class: "sort" }),
    ),
  )
  const head = el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...titles))
  const grid = el("table", { role: "table", "aria-label": label, keydown: walk }, head, body)
  const nothing = el("p.empty", empty)
  const room = el("div")
  const element = el("div.table", room, nothing)
  let known = new Map<string, { readonly mark: string; readonly row: HTMLTableRowElement }>()
  let sorted: { readonly at: number; readonly is_descending: boolean } | null = null
  if (server !== undefined) {
    noteSort(server.fields.indexOf(server.order.replace("-", "")), server.order.startsWith("-"))
  }

  function sort(at: number): void {
    noteSort(at, sorted?.at === at ? !sorted.is_descending : columns[at]?.[2] === "right")
    if (server === undefined) arrange()
    else server.choose(`${sorted?.is_descending ? "-" : ""}${server.fields[at]}`)
  }

  function noteSort(at: number, is_descending: boolean): void {
    sorted = { at, is_descending }
    for (const title of titles) title.removeAttribute("aria-sort")
    titles[at]?.setAttribute("aria-sort", is_descending ? "descending" : "ascending")
  }

  function arrange(): void {
    const rows = [...known.values()].map(({ row }) => row)
    const { at, is_descending } = sorted ?? { at: -1, is_descending: false }
    if (at >= 0 && server === undefined)
      rows.sort((left, right) => (is_descending ? -1 : 1) * compare(left.cells[at], right.cells[at]))
    for (const [place, row] of rows.entries()) {
      if (body.children[place] !== row) body.insertBefore(row, body.children[place] ?? null)
    }
  }

  function show(rows: readonly Row[]): void {
    element.replaceChildren(room, rows.length === 0 ? nothing : grid)
    const shown = new Map<string, { readonly mark: string; readonly row: HTMLTableRowElement }>()
    for (const row of rows) {
      const before = known.get(key(row))
      const now = mark(row)
      const made = before?.mark === now ? before.row : rowOf(row, columns)
      if (before !== undefined && before.row !== made) replaceElement(before.row, made)
      shown.set(key(row), { mark: now, row: made })
    }
    for (const [id, { row }] of known) if (!shown.has(id)) row.remove()
    known = shown
    arrange()
  }
  // Fits the table before the next frame, which would show it too wide. The size of `room` depends on the window, not on the table.
  const refit = () => fit(element)
  new ResizeObserver(refit).observe(room)
  new MutationObserver(refit).observe(body, { childList: true, characterData: true, subtree: true })
  return { element, show }
}

function rowOf<Row>(row: Row, columns: readonly PageColumn<Row>[]): HTMLTableRowElement {
  const cells = columns.map(([title, cell, right = null]) =>
    el("td", { role: "cell", "data-title": title, class: right }, cell(row)),
  )
  return el("tr", { role: "row" }, ...cells)
}

/** By the exact values of numbers and times, otherwise by the text. */
function compare(left: Element | undefined, right: Element | undefined): number {
  const [one, other] = [left, right].map((cell) => {
    const value = cell?.querySelector("data, time")
    return value?.getAttribute("value") ?? value?.getAttribute("datetime") ?? cell?.textContent ?? ""
  })
  const difference = Number(one) - Number(other)
  return Number.isNaN(difference) ? (one ?? "").localeCompare(other ?? "") : difference
}

/** By the room that its rows need, not only by that of the page, a table becomes tighter, and then its rows cards. */
function fit(element: Element): void {
  element.classList.remove("tight", "cards")
  for (const layout of ["tight", "cards"]) {
    if (element.scrollWidth <= element.clientWidth) return
    element.classList.remove("tight")
    element.classList.add(layout)
  }
}

/** The arrow keys move from a link or button to the same one in the next row. */
function walk(event: Event): void {
  if (!(event instanceof KeyboardEvent) || !(event.target instanceof HTMLElement)) return
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
  const row = event.target.closest("tr")
  const rows = row === null ? [] : [...(row.parentElement?.children ?? [])]
  if (step === 0 || row === null) return
  const place = [...row.querySelectorAll("a, button")].indexOf(event.target)
  const next = rows[rows.indexOf(row) + step]?.querySelectorAll<HTMLElement>("a, button")
  const target = next?.[place] ?? next?.[0]
  if (target === undefined) return
  event.preventDefault()
  target.focus()
}

/** A list tells rows by their `id`, if they have one. */
interface ListOptions<Row, Page> extends Omit<TableOptions<Row>, "label"> {
  readonly title?: string
  /** The title by default. */
  readonly label?: string
  readonly tools?: HTMLElement
  load(signal: AbortSignal): Promise<Page>
  below?(page: Page): Child
}

export function list<Row, Page extends { readonly data: readonly Row[] }>(
  visit: Visit,
  { load, below, title, label = title ?? "", key = idOf, tools, ...options }: ListOptions<Row, Page>,
): ViewPart {
  const rows = table({ ...options, label, key })
  const foot = el("div")
  const whole = el("div", rows.element, foot)
  const content = async (signal: AbortSignal): Promise<HTMLElement> => {
    const page = await load(signal)
    rows.show(page.data)
    foot.replaceChildren(below?.(page) || "")
    return whole
  }
  return part(visit, { title, tools, content })
}

function idOf(row: unknown): string {
  if (typeof row === "object" && row !== null && "id" in row && typeof row.id === "string") return row.id
  return JSON.stringify(row)
}

/** Links to older entries and back to the newest; empty for a single page. */
export function pages(
  view: string,
  query: PageQuery,
  after: string,
  { next }: ListBody<unknown>,
): HTMLElement {
  return el(
    "nav.pages",
    { "aria-label": "Pages" },
    after === "" ? null : el("a", { href: addressOf(view, null, query) }, "Newest"),
    next === null ? null : el("a", { href: addressOf(view, null, { ...query, after: next }) }, "Older"),
  )
}

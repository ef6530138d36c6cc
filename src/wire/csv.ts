import { isObject } from "./usage.ts"

/** CSV (RFC 4180, with lines that end in LF) and NDJSON of the rows of a list (D105). */

/** The rows of a body with a list in `data`, or in `rows` as a comparison has; null for another body. */
export function rowsOf(body: unknown): readonly object[] | null {
  const { data, rows } = isObject(body) ? body : {}
  const list = data ?? rows
  return Array.isArray(list) ? list.filter(isObject) : null
}

/** One row per line. */
export function ndjsonOf(rows: readonly object[]): string {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("")
}

/** A header, and a line for each row. Fields of objects are columns such as `a.b`; lists are JSON. Empty without rows. */
export function csvOf(rows: readonly object[]): string {
  const columns = csvColumns()
  for (const row of rows) columns.add(row)
  const names = columns.found()
  return csvHeader(names) + csvLines(names, rows)
}

/** The columns of rows, without those of objects that are null in some rows, whose fields are columns in the others. */
export function csvColumns() {
  const all = new Set<string>()
  return {
    add: (row: object) => addNames(row, "", all),
    found: () => [...all].filter((name) => !all.values().some((other) => other.startsWith(`${name}.`))),
  }
}

export function csvHeader(names: readonly string[]): string {
  return names.length === 0 ? "" : lineOf(names)
}

export function csvLines(names: readonly string[], rows: readonly object[]): string {
  if (names.length === 0) return ""
  const line = (row: object) => {
    const cells = new Map(cellsOf(row, ""))
    return lineOf(names.map((name) => cells.get(name) ?? ""))
  }
  return rows.map(line).join("")
}

const lineOf = (cells: readonly string[]) => `${cells.map(quoted).join(",")}\n`

function addNames(row: object, before: string, names: Set<string>): void {
  for (const [name, value] of Object.entries(row))
    if (isObject(value)) addNames(value, `${before}${name}.`, names)
    else names.add(`${before}${name}`)
}

function cellsOf(row: object, before: string): [name: string, cell: string][] {
  return Object.entries(row).flatMap(([name, value]): [string, string][] =>
    isObject(value) ? cellsOf(value, `${before}${name}.`) : [[`${before}${name}`, textOf(value)]],
  )
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return ""
  return typeof value === "string" ? harmless(value) : JSON.stringify(value)
}

const NUMBER = /^-?\d+(?:\.\d+)?$/

/** A text that no spreadsheet takes for a formula; numbers below 0 stay numbers. */
function harmless(text: string): string {
  return /^[=+\-@\t\r]/.test(text) && !NUMBER.test(text) ? `'${text}` : text
}

function quoted(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}

/** A field, with quotes or without, and what ends it. */
const FIELD = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/gy

/** The rows of a CSV file by the names of its first row (RFC 4180). Null if it is none, or a row has another number of fields. */
export function csvRows(text: string): readonly ReadonlyMap<string, string>[] | null {
  const rows: string[][] = []
  let row: string[] = []
  FIELD.lastIndex = 0
  const body = text.replace(/^\uFEFF/, "").replace(/\r?\n$/, "")
  for (;;) {
    const found = FIELD.exec(body)
    if (found === null) return null
    const [, quoted, plain = "", end] = found
    row.push(quoted?.replaceAll('""', '"') ?? plain)
    if (end === ",") continue
    rows.push(row)
    row = []
    if (end === "") break
  }
  const [names = [], ...records] = rows
  if (records.some(({ length }) => length !== names.length)) return null
  return records.map((fields) => new Map(fields.map((field, at) => [names[at] ?? "", field])))
}

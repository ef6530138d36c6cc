import { isObject } from "./usage.ts"

/** CSV (RFC 4180, with lines that end in LF) and NDJSON of the rows of a list (D105). */

/** The rows of a body with a list in `data`, or in `rows` as a comparison has; null for another body. */
export function rowsOf(body: unknown): readonly object[] | null {
  const { data, rows } = isObject(body) ? body : {}
  const list = data ?? rows
  return Array.isArray(list) ? list.filter(isObject) : null
}

const ROWS_AT_ONCE = 100

/** One row per line. */
export function ndjsonOf(rows: readonly object[]): string {
  return [...ndjsonParts(rows)].join("")
}

export function* ndjsonParts(rows: readonly object[]): Generator<string> {
  for (let at = 0; at < rows.length; at += ROWS_AT_ONCE)
    yield rows
      .slice(at, at + ROWS_AT_ONCE)
      .map((row) => `${JSON.stringify(row)}\n`)
      .join("")
}

/** A header, and a line for each row. Fields of objects are columns such as `a.b`; lists are JSON. Empty without rows. */
export function csvOf(rows: readonly object[]): string {
  return [...csvParts(rows)].join("")
}

/** The first parts are empty: one for each group of rows whose names were read. */
export function* csvParts(rows: readonly object[]): Generator<string> {
  const all = new Set<string>()
  for (const [at, row] of rows.entries()) {
    addNames(row, "", all)
    if (at % ROWS_AT_ONCE === ROWS_AT_ONCE - 1) yield ""
  }
  const named = [...all]
  // An object that is null in some rows has a column in those alone.
  const names = named.filter((name) => !named.some((other) => other.startsWith(`${name}.`)))
  if (names.length === 0) return
  yield lineOf(names)
  for (let at = 0; at < rows.length; at += ROWS_AT_ONCE)
    yield rows
      .slice(at, at + ROWS_AT_ONCE)
      .map((row) => {
        const cells = new Map(cellsOf(row, ""))
        return lineOf(names.map((name) => cells.get(name) ?? ""))
      })
      .join("")
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

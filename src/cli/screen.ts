import type { Static, TObject, TProperties } from "@sinclair/typebox"
import { groupDigits } from "../money.ts"
import { type Paint, painter } from "../start/paint.ts"
import { eachOf, type FieldPath, fieldAt, valueAt } from "../wire/field.ts"
import { briefMoment, moment, span } from "./moment.ts"

export interface Screen {
  /** Columns of the terminal; null if it is not a terminal. */
  readonly width: number | null
  readonly paint: Paint
  print(text: string): void
  remark(text: string): void
  printError(sentence: string): void
}

/** Replaces control characters, which a terminal would execute, and bidirectional ones, which would show a false order. */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu, "\ufffd")
}

/** The surroundings of a command: its output and its environment variables. */
export interface Runtime extends Screen {
  readonly env: Readonly<Record<string, string | undefined>>
}

export function processRuntime(): Runtime {
  const { stdout, stderr, env } = process
  const aside = painter(stderr.isTTY, env)
  return {
    env,
    width: stdout.isTTY ? stdout.columns || null : null,
    paint: painter(stdout.isTTY, env),
    print: (text) => void stdout.write(`${text}\n`),
    remark: (text) => void stderr.write(`${aside("dim", text)}\n`),
    printError: (sentence) => void stderr.write(`${aside("red", "tollgate:")} ${sentence}\n`),
  }
}

type CellValue = string | number | null | undefined

/** The format of values, and their alignment in a table. `point` aligns amounts at their decimal points. */
const FORMATS = {
  text: { print: String, align: "left" },
  number: { print: String, align: "right" },
  count: { print: (value: string | number) => count(Number(value)), align: "right" },
  usd: { print: (value: string | number) => usd(String(value)), align: "point" },
  point: { print: String, align: "point" },
  ms: { print: (value: string | number) => span(Number(value)), align: "right" },
  time: { print: (value: string | number) => moment(String(value)), align: "left" },
  brief: { print: (value: string | number) => briefMoment(String(value), Date.now()), align: "left" },
  percent: {
    print: (value: string | number) => `${Number(value) > 0 ? "+" : ""}${value} %`,
    align: "right",
  },
} as const

export interface Column<Row> {
  readonly title: string
  /** The value of a record; null and undefined print as `-`. */
  of(row: Row): CellValue
  /** Default: text. */
  readonly as?: keyof typeof FORMATS
  /** The minimum width in a narrow terminal; without it the column is never cut. */
  readonly least?: number
  /** Columns with this are dropped in a narrow terminal, the highest value first. */
  readonly spare?: number
}

/** Makes columns of a schema's fields. `of` is for values that are shown in another way. */
export function columnsOf<P extends TProperties>(schema: TObject<P>) {
  type Of = Column<Static<TObject<P>>>
  return eachOf((path: FieldPath<P>, shown: Partial<Of> = {}): Of => {
    const { title, unit } = fieldAt(schema, path)
    return {
      title: title.toUpperCase(),
      of: (record) => printable(valueAt(record, path)),
      ...(shown.of === undefined && { as: unit }),
      ...shown,
    }
  })
}

/** As `columnsOf`, for the lines of a card. A given value is shown in place of the record's; undefined leaves the line out. */
export function linesOf<P extends TProperties>(schema: TObject<P>, record: Static<TObject<P>>) {
  return eachOf((path: FieldPath<P>, ...values: readonly CellValue[]): CardLine => {
    const { title, unit } = fieldAt(schema, path)
    const name = title.toLowerCase()
    return values.length > 0 ? [name, values[0]] : [name, printable(valueAt(record, path)), unit]
  })
}

export type CardLines<P extends TProperties> = ReturnType<typeof linesOf<P>>

function printable(value: unknown): CellValue {
  return typeof value === "string" || typeof value === "number" ? value : null
}

const GAP = "  "

/** Rows below a header, for people and `awk`, as wide as the terminal at most; only ids are never cut. */
export function table<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  { width, paint }: Pick<Screen, "width" | "paint">,
): string {
  let shown = columns.map((column) => {
    const { print, align } = FORMATS[column.as ?? "text"]
    const values = rows.map((row) => column.of(row) ?? null)
    const texts = values.map((value) => (value === null ? "-" : visible(print(value))))
    const cells = align === "point" ? onPoint(texts) : texts
    const whole = Math.max(...[column.title, ...cells].map((cell) => Bun.stringWidth(cell)))
    return { ...column, align, cells: [column.title, ...cells], whole }
  })
  const surplus = (of: (column: (typeof shown)[number]) => number) =>
    shown.reduce((sum, column) => sum + of(column) + GAP.length, -GAP.length) - (width ?? Infinity)
  const spares = shown.filter(({ spare }) => spare !== undefined)
  for (const spare of spares.sort((one, other) => (other.spare ?? 0) - (one.spare ?? 0)))
    if (surplus(({ whole, least }) => Math.min(whole, least ?? whole)) > 0)
      shown = shown.filter((column) => column !== spare)
  let left = Math.max(
    0,
    surplus(({ whole }) => whole),
  )
  const padded = shown.map(({ align, cells, whole, least = whole }) => {
    const given = Math.min(left, Math.max(0, whole - least))
    left -= given
    return cells.map((cell) => fill(cell, whole - given, align === "left"))
  })
  const lines = [-1, ...rows.keys()].map((row) =>
    padded
      .map((cells) => cells[row + 1])
      .join(GAP)
      .trimEnd(),
  )
  return [paint("dim", lines[0] ?? ""), ...lines.slice(1)].join("\n")
}

/** A line of a card. If the value is undefined, it is left out. */
export type CardLine = readonly [name: string, value: CellValue, as?: keyof typeof FORMATS]

/** One name and value per line. Amounts of money name their currency. */
export function card(lines: readonly CardLine[], { paint }: Pick<Screen, "paint">): string {
  const shown = lines.filter(([, value]) => value !== undefined)
  const width = Math.max(...shown.map(([name]) => name.length))
  return shown
    .map(([name, value, as = "text"]) => {
      const text = value === null || value === undefined ? "-" : visible(FORMATS[as].print(value))
      return `${paint("dim", name.padEnd(width))}${GAP}${as === "usd" ? `${text} USD` : text}`.trimEnd()
    })
    .join("\n")
}

function fill(cell: string, width: number, is_left: boolean): string {
  const text = Bun.stringWidth(cell) > width ? `${Bun.sliceAnsi(cell, 0, width - 1)}…` : cell
  const room = " ".repeat(Math.max(0, width - Bun.stringWidth(text)))
  return is_left ? text + room : room + text
}

/** Pads decimal numbers on the right so that their points align. */
function onPoint(numbers: readonly string[]): string[] {
  const decimals = (text: string) => (text.includes(".") ? text.length - text.indexOf(".") : 0)
  const most = Math.max(0, ...numbers.map(decimals))
  return numbers.map((text) => text + " ".repeat(most - decimals(text)))
}

/** USD with at least two decimals: `10.00`, `-9.9871`. Amounts stay decimal strings and never become numbers. */
export function usd(amount: string): string {
  const [whole = "", fraction = ""] = amount.split(".")
  return `${whole}.${fraction.padEnd(2, "0")}`
}

/** `1 call`, `2,417 calls`. */
export function counted(number: number, noun: string): string {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`
}

/** Whole numbers in groups of three digits: `2,417`. */
export function count(number: number): string {
  return groupDigits(number.toString())
}

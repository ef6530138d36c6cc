import { groupDigits } from "../money.ts"
import { type Paint, painter } from "../paint.ts"

/** Where a command prints: a terminal, a file or a pipe. */
export interface Screen {
  /** Columns of the terminal; null if it is not a terminal. */
  readonly width: number | null
  readonly paint: Paint
  /** Prints the result to standard output. */
  print(text: string): void
  /** Prints a remark to standard error. */
  remark(text: string): void
  /** Prints the reason of a failure to standard error. */
  printError(sentence: string): void
}

/** Replaces control characters, which a terminal would execute, and bidirectional ones, which would show a false order. */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu, "\ufffd")
}

/** What a command runs in: where it prints, and its environment variables. */
export interface Runtime extends Screen {
  readonly env: Readonly<Record<string, string | undefined>>
}

/** The runtime of this process. */
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

/** A column of a table. */
export interface Column {
  readonly title: string
  /** `point` aligns amounts at their decimal points. */
  readonly align?: "left" | "right" | "point"
  /** The minimum width in a narrow terminal; without it the column is never cut. */
  readonly least?: number
  /** Columns with this are dropped in a narrow terminal, the highest value first. */
  readonly spare?: number
}

const GAP = "  "

/** Rows below a header, without a box, so that they can be read by `awk`, too: as wide as the content but at most as wide as the terminal. */
export function table(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number | null,
  paint: Paint,
): string {
  const all = columns.map((column, at) =>
    stripe(
      column,
      rows.map((row) => visible(row[at] ?? "")),
    ),
  )
  const shown = fitting(all, width ?? Number.POSITIVE_INFINITY)
  const line = (cells: readonly string[]) => cells.join(GAP).trimEnd()
  const head = paint("dim", line(shown.map(({ title }) => title)))
  return [head, ...rows.map((_, row) => line(shown.map(({ cells }) => cells[row] ?? "")))].join("\n")
}

/** One name and value per line. */
export function card(entries: readonly (readonly [name: string, value: string])[], paint: Paint): string {
  const width = Math.max(...entries.map(([name]) => name.length))
  return entries
    .map(([name, value]) => `${paint("dim", name.padEnd(width))}${GAP}${visible(value)}`.trimEnd())
    .join("\n")
}

/** A column with its cells, all padded to `width`. */
interface Stripe {
  readonly column: Column
  readonly contents: readonly string[]
  readonly title: string
  readonly cells: readonly string[]
  readonly width: number
}

function stripe(column: Column, contents: readonly string[]): Stripe {
  const even = column.align === "point" ? onPoint(contents) : contents
  return sized(column, even, Math.max(...[column.title, ...even].map(widthOf)))
}

function sized(column: Column, contents: readonly string[], width: number): Stripe {
  const fill = (text: string) => padded(cut(text, width), width, column.align ?? "left")
  return { column, contents, width, title: fill(column.title), cells: contents.map(fill) }
}

/** Drops optional columns, then narrows cuttable ones. Ids are never cut, because people copy them, so a line may exceed the width. */
function fitting(stripes: readonly Stripe[], width: number): readonly Stripe[] {
  const shown = [...stripes]
  const surplus = () => shown.reduce((sum, stripe) => sum + stripe.width + GAP.length, -GAP.length) - width
  const spares = stripes
    .filter(({ column }) => column.spare !== undefined)
    .sort((one, other) => (other.column.spare ?? 0) - (one.column.spare ?? 0))
  const give = () =>
    shown.reduce((sum, { width, column }) => sum + Math.max(0, width - (column.least ?? width)), 0)
  for (const spare of spares) if (surplus() > give()) shown.splice(shown.indexOf(spare), 1)
  return shown.map((stripe, at) => {
    const { column, width } = stripe
    const narrowed = Math.max(Math.min(width, column.least ?? width), width - Math.max(0, surplus()))
    if (narrowed === width) return stripe
    shown[at] = sized(column, stripe.contents, narrowed)
    return shown[at]
  })
}

function padded(text: string, width: number, align: "left" | "right" | "point"): string {
  const room = " ".repeat(Math.max(0, width - widthOf(text)))
  return align === "left" ? text + room : room + text
}

/** Pads decimal numbers on the right so that their points align. */
function onPoint(numbers: readonly string[]): string[] {
  const decimals = (text: string) => (text.includes(".") ? text.length - text.indexOf(".") : 0)
  const most = Math.max(0, ...numbers.map(decimals))
  return numbers.map((text) => text + " ".repeat(most - decimals(text)))
}

function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text
  let kept = ""
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    if (widthOf(kept + segment) > width - 1) break
    kept += segment
  }
  return `${kept}…`
}

function widthOf(text: string): number {
  return Bun.stringWidth(text)
}

/** Formats amounts for people. Amounts stay decimal strings throughout and never become numbers. */

/** With at least two decimals: `10.00`, `-9.9871`. */
export function usd(amount: string): string {
  const [whole = "", fraction = ""] = amount.split(".")
  return `${whole}.${fraction.padEnd(2, "0")}`
}

/** Whole numbers in groups of three digits: `2,417`. */
export function count(number: number): string {
  return groupDigits(number.toString())
}

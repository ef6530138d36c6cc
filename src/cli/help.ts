import type { Paint } from "../paint.ts"
import type { Argument, Command, Group, Leaf } from "./command.ts"

/** The maximum width of help, also used if the width of the terminal is unknown. */
const WIDEST = 100

/** The `--help` text of a command; `path` is how it is called. Written here for the examples and the width of the terminal, which libraries leave out. */
export function helpOf(
  path: readonly string[],
  command: Command,
  paint: Paint,
  width: number | null = null,
): string {
  const page = { whole: ["tollgate", ...path].join(" "), paint, width: Math.min(width ?? WIDEST, WIDEST) }
  return command.kind === "group" ? groupHelp(command, page) : leafHelp(command, page)
}

interface Page {
  /** How the command is called. */
  readonly whole: string
  readonly paint: Paint
  readonly width: number
}

function groupHelp({ summary, commands, standard }: Group, page: Page): string {
  const { whole, width } = page
  const rows = Object.entries(commands).map(([name, { summary }]): Row => [name, summary])
  const first = standard === null ? "" : ` Default command: ${standard}.`
  return [
    wrapped(`${summary}.${first}`, width).join("\n"),
    section("Usage", [`${whole} COMMAND`], page),
    section("Commands", columns(rows, width), page),
    `Run "${whole} COMMAND --help" for the flags and examples of a command.`,
  ].join("\n\n")
}

function leafHelp({ summary, details, args, examples, passes_arguments }: Leaf, page: Page): string {
  const { whole, width } = page
  const entries = Object.entries(args)
  const places = entries.filter(([, argument]) => argument.type === "positional")
  const flags = entries.filter(([, argument]) => argument.type !== "positional")
  const usage = [
    whole,
    ...places.map(([name]) => name.toUpperCase()),
    ...(flags.length > 0 || passes_arguments ? ["[FLAGS]"] : []),
  ].join(" ")
  const placeRows = places.map(([name, argument]): Row => [name.toUpperCase(), descriptionOf(argument)])
  const flagRows = flags.map(([name, argument]): Row => [flagTitle(name, argument), descriptionOf(argument)])
  return [
    wrapped(details === "" ? `${summary}.` : `${summary}. ${details}`, width).join("\n"),
    section("Usage", [usage], page),
    ...(places.length > 0 ? [section("Arguments", columns(placeRows, width), page)] : []),
    ...(flags.length > 0 ? [section("Flags", columns(flagRows, width), page)] : []),
    section(
      "Examples",
      examples.flatMap(([line, summary]) => [line, `    ${summary}`]),
      page,
    ),
  ].join("\n\n")
}

type Row = readonly [name: string, summary: string]

const INDENT = "  "

/** Two columns: names, and their descriptions wrapped to the width. */
function columns(rows: readonly Row[], width: number): string[] {
  const name_width = Math.max(...rows.map(([name]) => name.length))
  const margin = name_width + 2 * INDENT.length
  return rows.flatMap(([name, summary]) =>
    wrapped(summary, width - margin).map(
      (line, at) => `${(at === 0 ? name : "").padEnd(name_width)}${INDENT}${line}`,
    ),
  )
}

/** Wraps text to `width`; a longer word gets a line of its own. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = []
  for (const word of text.split(" ")) {
    const last = lines.at(-1)
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word)
    else lines[lines.length - 1] = `${last} ${word}`
  }
  return lines
}

function section(title: string, lines: readonly string[], { paint }: Page): string {
  return [paint("bold", title), ...lines.map((line) => `${INDENT}${line}`)].join("\n")
}

function flagTitle(name: string, argument: Argument): string {
  return argument.type === "boolean" ? `--${name}` : `--${name} ${argument.valueHint ?? "WORD"}`
}

function descriptionOf(argument: Argument): string {
  const { description } = argument
  return argument.type === "enum" ? `${description}: ${argument.options?.join(", ")}` : description
}

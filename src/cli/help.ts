import type { ArgDef } from "citty"
import type { Paint } from "../paint.ts"
import type { Command, Group, Leaf } from "./command.ts"

/** What `--help` prints of a command; `path` is how it is called. */
export function helpOf(path: readonly string[], command: Command, paint: Paint): string {
  const whole = ["tollgate", ...path].join(" ")
  return command.kind === "group" ? groupHelp(whole, command, paint) : leafHelp(whole, command, paint)
}

function groupHelp(whole: string, { tells, commands, standard }: Group, paint: Paint): string {
  const rows = Object.entries(commands).map(([name, { tells }]): Row => [name, tells])
  const first = standard === null ? "" : ` Without a command: ${standard}.`
  return [
    `${tells}.${first}`,
    section("Usage", [`${whole} COMMAND`], paint),
    section("Commands", columns(rows), paint),
    `${whole} COMMAND --help shows the flags of a command, and examples.`,
  ].join("\n\n")
}

function leafHelp(whole: string, { tells, details, args, examples, hands_over }: Leaf, paint: Paint): string {
  const entries = Object.entries(args)
  const places = entries.filter(([, argument]) => argument.type === "positional")
  const flags = entries.filter(([, argument]) => argument.type !== "positional")
  const usage = [
    whole,
    ...places.map(([name, { required }]) =>
      required === false ? `[${name.toUpperCase()}]` : name.toUpperCase(),
    ),
    ...(flags.length > 0 || hands_over ? ["[FLAGS]"] : []),
  ].join(" ")
  const described = (
    rows: readonly (readonly [string, ArgDef])[],
    title: (name: string, of: ArgDef) => string,
  ) => columns(rows.map(([name, argument]) => [title(name, argument), descriptionOf(argument)]))
  return [
    details === "" ? `${tells}.` : `${tells}. ${details}`,
    section("Usage", [usage], paint),
    ...(places.length > 0
      ? [
          section(
            "Arguments",
            described(places, (name) => name.toUpperCase()),
            paint,
          ),
        ]
      : []),
    ...(flags.length > 0 ? [section("Flags", described(flags, flagTitle), paint)] : []),
    section(
      "Examples",
      examples.flatMap(([line, tells]) => [line, `    ${tells}`]),
      paint,
    ),
  ].join("\n\n")
}

type Row = readonly [name: string, tells: string]

function columns(rows: readonly Row[]): string[] {
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, tells]) => `${name.padEnd(width)}  ${tells}`)
}

function section(title: string, lines: readonly string[], paint: Paint): string {
  return [paint("bold", title), ...lines.map((line) => `  ${line}`)].join("\n")
}

function flagTitle(name: string, argument: ArgDef): string {
  return argument.type === "boolean" ? `--${name}` : `--${name} ${argument.valueHint ?? "WORD"}`
}

function descriptionOf(argument: ArgDef): string {
  const { description = "" } = argument
  return argument.type === "enum" ? `${description}: ${argument.options?.join(", ")}` : description
}

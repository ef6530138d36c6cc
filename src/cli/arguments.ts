import { UsageError } from "./cli-error.ts"
import type { Argument, Arguments, Command, Group, Leaf } from "./command.ts"

/** A parsed command line: help on a command, or a command with its arguments. */
export type Asked =
  | { readonly what: "help"; readonly path: readonly string[]; readonly command: Command }
  | {
      readonly what: "run"
      readonly path: readonly string[]
      readonly leaf: Leaf
      /** By name; `true` for a flag without a value. */
      readonly values: ReadonlyMap<string, string | true>
      /** As typed, for a command that passes them on. */
      readonly words: readonly string[]
    }

/**
 * Finds the command in the words of a command line and checks its arguments. Throws a `UsageError`. `parseArgs` of Node and
 * the libraries for this take `-2.50` for flags, and suggest nothing for a word that is misspelt.
 */
export function parseCommandLine(root: Group, typed: readonly string[]): Asked {
  const words = typed[0] === "help" ? [...typed.slice(1), "--help"] : typed
  const path: string[] = []
  let command: Command = root
  let rest = words
  while (command.kind === "group") {
    const [name, ...others]: readonly string[] = rest
    if (name === undefined || name.startsWith("-")) {
      const standard: Command | undefined = command.commands[command.standard ?? ""]
      if (standard === undefined || asksForHelp(rest)) return groupHelp(path, command, rest)
      command = standard
      break
    }
    const next: Command | undefined = Object.hasOwn(command.commands, name)
      ? command.commands[name]
      : undefined
    if (next === undefined) throw unknownCommand(path, name, command)
    path.push(name)
    command = next
    rest = others
  }
  if (command.kind === "group") throw new Error("a group cannot be the standard command of a group")
  if (asksForHelp(rest)) return { what: "help", path, command }
  const values = command.passes_arguments ? new Map<string, string>() : readWords(path, command, rest)
  return { what: "run", path, leaf: command, values, words: rest }
}

function groupHelp(path: readonly string[], command: Group, rest: readonly string[]): Asked {
  const [flag] = rest
  if (flag !== undefined && !asksForHelp(rest)) {
    throw new UsageError(`${flag} must come after a command`)
  }
  return { what: "help", path, command }
}

function asksForHelp(words: readonly string[]): boolean {
  const end = words.indexOf("--")
  return (end < 0 ? words : words.slice(0, end)).some((word) => word === "--help" || word === "-h")
}

function unknownCommand(path: readonly string[], name: string, { commands }: Group): UsageError {
  const known = Object.keys(commands)
  const meant = nearest(name, known)
  const whole = ["tollgate", ...path].join(" ")
  if (meant !== null)
    return new UsageError(`unknown command "${whole} ${name}"; did you mean "${whole} ${meant}"?`)
  return new UsageError(`unknown command "${whole} ${name}"; "${whole} --help" lists the commands`)
}

/** Each argument by its name. A word that begins with a minus and a digit is an amount, not a flag. */
function readWords(path: readonly string[], { args }: Leaf, words: readonly string[]) {
  const values = new Map<string, string | true>()
  const plain: string[] = []
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? ""
    if (word === "--") {
      plain.push(...words.slice(at + 1))
      break
    }
    if (!/^-[^\d]/.test(word)) {
      plain.push(word)
      continue
    }
    const { name, argument, value } = flagOf(path, args, word)
    if (values.has(name)) throw new UsageError(`--${name} can be given only once`)
    if (argument.type === "boolean") {
      if (value !== null) throw new UsageError(`--${name} takes no value`)
      values.set(name, true)
      continue
    }
    const given = value ?? words[++at]
    if (given === undefined || (value === null && /^-[^\d]/.test(given)))
      throw new UsageError(`--${name} needs a value`)
    checkChoice(name, argument, given)
    values.set(name, given)
  }
  const places = Object.entries(args).filter(([, argument]) => argument.type === "positional")
  const surplus = plain[places.length]
  if (surplus !== undefined) throw new UsageError(`unexpected argument "${surplus}"; ${lookUp(path)}`)
  places.forEach(([name, argument], at) => {
    const word = plain[at]
    if (word === undefined) throw new UsageError(`${name.toUpperCase()} is required; ${lookUp(path)}`)
    checkPlace(name, argument, word)
    values.set(name, word)
  })
  return values
}

function flagOf(path: readonly string[], args: Arguments, word: string) {
  const [whole, name = "", value] = /^--?([^=]*)(?:=([\s\S]*))?$/.exec(word) ?? [word]
  const argument = Object.hasOwn(args, name) && word.startsWith("--") ? args[name] : undefined
  if (argument === undefined || argument.type === "positional") {
    const known = Object.keys(args).filter((known) => args[known]?.type !== "positional")
    const meant = nearest(name, known)
    const hint = meant === null ? lookUp(path) : `did you mean --${meant}?`
    throw new UsageError(`unknown flag ${whole.split("=")[0]}; ${hint}`)
  }
  return { name, argument, value: value ?? null }
}

function checkChoice(name: string, argument: Argument, given: string): void {
  if (argument.type !== "enum" || argument.options === undefined) return
  if (argument.options.includes(given)) return
  throw new UsageError(`--${name}: expected one of ${argument.options.join(", ")}`)
}

/** An empty word usually comes from an unset variable in a script. */
function checkPlace(name: string, argument: Argument, word: string): void {
  if (word === "") throw new UsageError(`${name.toUpperCase()} must not be empty`)
  const choices = argument.valueHint?.split("|") ?? []
  if (choices.length > 1 && !choices.includes(word)) {
    throw new UsageError(`${name.toUpperCase()}: expected one of ${choices.join(", ")}`)
  }
}

function lookUp(path: readonly string[]): string {
  return `see "${["tollgate", ...path, "--help"].join(" ")}"`
}

/** The most likely intended word: one that starts with `typed`, or the closest within two edits; null if there is none. */
export function nearest(typed: string, known: readonly string[]): string | null {
  const begun = known.find((word) => typed.length >= 2 && word.startsWith(typed))
  if (begun !== undefined) return begun
  const most = Math.min(2, Math.floor(typed.length / 2))
  const [best] = known
    .map((word) => ({ word, slips: slipsBetween(typed, word) }))
    .filter(({ slips }) => slips <= most)
    .sort((one, other) => one.slips - other.slips)
  return best?.word ?? null
}

/** The edit distance: letters dropped, added, changed or swapped with their neighbour (optimal string alignment). */
function slipsBetween(one: string, other: string): number {
  let before: number[] = []
  let last = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (let row = 1; row <= one.length; row++) {
    const current = [row]
    for (let column = 1; column <= other.length; column++) {
      const same = one[row - 1] === other[column - 1]
      const swapped = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
      current[column] = Math.min(
        at(last, column) + 1,
        at(current, column - 1) + 1,
        at(last, column - 1) + (same ? 0 : 1),
        swapped ? at(before, column - 2) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    before = last
    last = current
  }
  return at(last, other.length)
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY
}

import type { Runtime } from "./screen.ts"

/** A command line that works as it is, and what it does. */
export type Example = readonly [line: string, summary: string]

/** An argument of a command. A `positional` word must be given, a flag need not. */
export interface Argument {
  readonly type: "positional" | "string" | "enum" | "boolean"
  readonly description: string
  /** What stands for the value in the help. Of a positional word: the words that it can be, separated by `|`. */
  readonly valueHint?: string
  /** The words that an `enum` can be. */
  readonly options?: readonly string[]
}

export type Arguments = Readonly<Record<string, Argument>>

/** A command that runs. */
export interface Leaf {
  readonly kind: "leaf"
  /** One line, shown in lists of commands. */
  readonly summary: string
  /** More text for `--help`. */
  readonly details: string
  readonly args: Arguments
  readonly examples: readonly [Example, ...Example[]]
  /** Whether its arguments are passed unread to another program. */
  readonly passes_arguments: boolean
  run(given: Given<string>, runtime: Runtime, words: readonly string[]): Promise<void> | void
}

/** A command with subcommands. */
export interface Group {
  readonly kind: "group"
  readonly summary: string
  readonly commands: Readonly<Record<string, Command>>
  /** The subcommand that runs if none is named; null: help. */
  readonly standard: string | null
}

export type Command = Leaf | Group

interface LeafDefinition<Args extends Arguments> {
  readonly summary: string
  readonly details?: string
  readonly args: Args
  readonly examples: readonly [Example, ...Example[]]
  readonly passes_arguments?: boolean
  run(given: Given<keyof Args & string>, runtime: Runtime, words: readonly string[]): Promise<void> | void
}

/** Defines a command. */
export function leaf<const Args extends Arguments>(definition: LeafDefinition<Args>): Leaf {
  return { kind: "leaf", details: "", passes_arguments: false, ...definition }
}

export function group(
  summary: string,
  commands: Readonly<Record<string, Command>>,
  standard: string | null = null,
): Group {
  return { kind: "group", summary, commands, standard }
}

/** The arguments of a command, by name. */
export interface Given<Name extends string> {
  /** Null if the argument was not given. */
  text(name: Name): string | null
  /** The value of a required argument. */
  word(name: Name): string
  has(name: Name): boolean
}

/** The arguments of a parsed command line; `true` is a flag without a value. */
export function given(values: ReadonlyMap<string, string | true>): Given<string> {
  const text = (name: string) => {
    const value = values.get(name)
    return typeof value === "string" ? value : null
  }
  return {
    text,
    word(name) {
      const found = text(name)
      if (found === null) throw new Error(`the command was run without its ${name}`)
      return found
    },
    has: (name) => values.has(name),
  }
}

import { type ArgsDef, defineCommand, runCommand } from "citty"
import type { Runtime } from "./screen.ts"

/** A command line that works as it is, and what it does. */
export type Example = readonly [line: string, summary: string]

/** A command that runs. */
export interface Leaf {
  readonly kind: "leaf"
  /** One line, shown in lists of commands. */
  readonly summary: string
  /** More text for `--help`. */
  readonly details: string
  readonly args: ArgsDef
  readonly examples: readonly [Example, ...Example[]]
  /** Whether its arguments are passed unread to another program. */
  readonly passes_arguments: boolean
  run(words: readonly string[], runtime: Runtime): Promise<void>
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

interface LeafDefinition<Args extends ArgsDef> {
  readonly summary: string
  readonly details?: string
  readonly args: Args
  readonly examples: readonly [Example, ...Example[]]
  readonly passes_arguments?: boolean
  run(given: Given<keyof Args & string>, runtime: Runtime, words: readonly string[]): Promise<void> | void
}

/** Defines a command: its arguments for citty, and its help. */
export function leaf<const Args extends ArgsDef>(definition: LeafDefinition<Args>): Leaf {
  const { summary, details = "", args, examples, passes_arguments = false } = definition
  return {
    kind: "leaf",
    summary,
    details,
    args,
    examples,
    passes_arguments,
    async run(words, runtime) {
      const command = defineCommand<ArgsDef>({
        args,
        run: (context) => definition.run(given(context.args), runtime, words),
      })
      await runCommand(command, { rawArgs: [...words] })
    },
  }
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

/** Wraps the values that citty parsed, whose types claim that a missing argument is a string. */
export function given<Name extends string>(values: Readonly<Record<string, unknown>>): Given<Name> {
  const text = (name: Name) => {
    const value = values[name]
    return typeof value === "string" ? value : null
  }
  return {
    text,
    word(name) {
      const found = text(name)
      if (found === null) throw new Error(`the command was run without its ${name}`)
      return found
    },
    has: (name) => values[name] === true,
  }
}

import { type ArgsDef, defineCommand, runCommand } from "citty"
import type { Given } from "./given.ts"
import { given } from "./given.ts"
import type { Runtime } from "./screen.ts"

/** A line that works when pasted, and what it does. */
export type Example = readonly [line: string, summary: string]

/** A command that does something. */
export interface Leaf {
  readonly kind: "leaf"
  /** One line, as lists of commands show it. */
  readonly summary: string
  /** What `--help` adds to that. */
  readonly details: string
  readonly args: ArgsDef
  readonly examples: readonly [Example, ...Example[]]
  /** Whether its arguments are another program's to read. */
  readonly passes_arguments: boolean
  run(words: readonly string[], runtime: Runtime): Promise<void>
}

/** A command whose next word is a command of its own. */
export interface Group {
  readonly kind: "group"
  readonly summary: string
  readonly commands: Readonly<Record<string, Command>>
  /** The command that is meant when none is named; null: help. */
  readonly standard: string | null
}

export type Command = Leaf | Group

export interface LeafDefinition<Args extends ArgsDef> {
  readonly summary: string
  readonly details?: string
  readonly args: Args
  readonly examples: readonly [Example, ...Example[]]
  readonly passes_arguments?: boolean
  run(given: Given<keyof Args & string>, runtime: Runtime, words: readonly string[]): Promise<void> | void
}

/** A command by what citty needs to read its arguments, and what its help shows. */
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

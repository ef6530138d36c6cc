import { type ArgsDef, defineCommand, runCommand } from "citty"
import type { Given } from "./given.ts"
import { given } from "./given.ts"
import type { Surroundings } from "./screen.ts"

/** A line that works when pasted, and what it does. */
export type Example = readonly [line: string, tells: string]

/** A command that does something. */
export interface Leaf {
  readonly kind: "leaf"
  /** One line, as lists of commands show it. */
  readonly tells: string
  /** What `--help` adds to that. */
  readonly details: string
  readonly args: ArgsDef
  readonly examples: readonly [Example, ...Example[]]
  /** Whether its arguments are another program's to read. */
  readonly hands_over: boolean
  run(words: readonly string[], around: Surroundings): Promise<void>
}

/** A command whose next word is a command of its own. */
export interface Group {
  readonly kind: "group"
  readonly tells: string
  readonly commands: Readonly<Record<string, Command>>
  /** The command that is meant when none is named; null: help. */
  readonly standard: string | null
}

export type Command = Leaf | Group

export interface LeafDefinition<Args extends ArgsDef> {
  readonly tells: string
  readonly details?: string
  readonly args: Args
  readonly examples: readonly [Example, ...Example[]]
  readonly hands_over?: boolean
  run(given: Given<keyof Args & string>, around: Surroundings, words: readonly string[]): Promise<void> | void
}

/** A command by what citty needs to read its arguments, and what its help shows. */
export function leaf<const Args extends ArgsDef>(definition: LeafDefinition<Args>): Leaf {
  const { tells, details = "", args, examples, hands_over = false } = definition
  return {
    kind: "leaf",
    tells,
    details,
    args,
    examples,
    hands_over,
    async run(words, around) {
      const command = defineCommand<ArgsDef>({
        args,
        run: (context) => definition.run(given(context.args), around, words),
      })
      await runCommand(command, { rawArgs: [...words] })
    },
  }
}

export function group(
  tells: string,
  commands: Readonly<Record<string, Command>>,
  standard: string | null = null,
): Group {
  return { kind: "group", tells, commands, standard }
}

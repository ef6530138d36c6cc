import { Argument, Command, type CommanderError, InvalidArgumentError, Option } from "commander"
import { UsageError } from "./cli-error.ts"
import type { Runtime } from "./screen.ts"

/** The purpose of a word; with its choices if only those are allowed. */
type WordMeaning = string | readonly [description: string, choices: readonly string[]]

/** The words that can follow a command: `<name>` must be given, `--name <VALUE>` and the flag `--name` need not. */
export type CommandWords = Readonly<Record<`<${string}>` | `--${string}`, WordMeaning>>

type NameOf<Word> = Word extends `--${infer Name} <${string}>`
  ? Name
  : Word extends `--${infer Name}` | `<${infer Name}>`
    ? Name
    : never

/** The words of a command line by name. Undefined: not given. */
export type Given<W> = {
  readonly [Word in keyof W as NameOf<Word>]: Word extends `<${string}>`
    ? string
    : Word extends `${string}<${string}`
      ? string | undefined
      : true | undefined
}

interface Definition<Of> {
  /** One line, shown in lists of commands. */
  readonly summary: string
  /** More text for `--help`. */
  readonly details?: string
  /** Command lines that work as they are, and what each does. */
  readonly examples: Readonly<Record<`tollgate ${string}`, string>>
  /** True if its words are passed unread to another program. */
  readonly passes_words?: boolean
  run(given: Of, runtime: Runtime, words: readonly string[]): Promise<void> | void
}

export type LeafDefinition<W> = Definition<Given<W>> & { readonly words: W }

type GivenValues = Readonly<Record<string, string | true | undefined>>

export interface Leaf extends Definition<GivenValues> {
  readonly words: CommandWords
}

export interface Group {
  readonly summary: string
  readonly commands: Readonly<Record<string, Leaf | Group>>
  /** The command that runs if none is named; without it: help. */
  readonly standard?: string
}

export function leaf<const W extends CommandWords>(definition: LeafDefinition<W>): Leaf {
  return { ...definition, run: (given, ...more) => definition.run(typed(definition.words, given), ...more) }
}

/** The values of these words alone. `commandOf` makes them from the words, so they have these names and types. */
export function typed<W extends CommandWords>(words: W, given: GivenValues): Given<W> {
  const names = Object.keys(words).map((word) => word.replace(/^(?:<|--)([\w-]+).*$/, "$1"))
  return Object.fromEntries(names.map((name) => [name, given[name]])) as Given<W>
}

/** The width of help; a narrower terminal has less. */
const WIDEST = 100

export function commandOf(path: readonly string[], definition: Leaf | Group, runtime: Runtime): Command {
  const command = new Command(path.at(-1))
  const { summary } = definition
  const width = () => Math.min(runtime.width ?? WIDEST, WIDEST)
  const print = (text: string) => runtime.print(text.trimEnd())
  command
    .summary(summary)
    .helpCommand(false)
    .helpOption("-h, --help", "show help and examples")
    .configureHelp({ styleTitle: (title) => runtime.paint("bold", title) })
    .configureOutput({
      writeOut: print,
      // Only help comes here: the messages of errors are printed by the caller of the parser.
      writeErr: print,
      outputError() {},
      getOutHelpWidth: width,
      getErrHelpWidth: width,
      getOutHasColors: () => true,
      getErrHasColors: () => true,
    })
    .exitOverride((error) => {
      throw isHelp(error) ? error : new UsageError(sentenceOf(error, path))
    })
  if ("commands" in definition) {
    const { commands, standard } = definition
    command
      .description(`${summary}.${standard === undefined ? "" : ` Default command: ${standard}.`}`)
      .usage("COMMAND")
      .enablePositionalOptions()
    for (const [name, below] of Object.entries(commands))
      command.addCommand(commandOf([...path, name], below, runtime))
    return command
  }
  addWords(command, definition)
  return command.action(async () => {
    const { args, options, registeredArguments } = command
    const places = registeredArguments.map((argument, at) => [argument.name(), args[at]])
    const flags = options.map((option) => [option.name(), command.getOptionValue(option.attributeName())])
    await definition.run(Object.fromEntries([...places, ...flags]), runtime, args)
  })
}

function addWords(command: Command, { summary, details, words, examples, passes_words }: Leaf): void {
  command.description(details === undefined ? `${summary}.` : `${summary}. ${details}`)
  for (const [word, meaning] of Object.entries(words)) {
    const [description, choices] = typeof meaning === "string" ? [meaning] : meaning
    if (word.startsWith("<")) {
      const argument = new Argument(word, description)
      command.addArgument((choices ? argument.choices(choices) : argument).argParser(reader(choices)))
    } else {
      const option = new Option(word, description)
      command.addOption(
        word.includes("<")
          ? (choices ? option.choices(choices) : option).argParser(optionReader(choices))
          : option,
      )
    }
  }
  if (passes_words) command.argument("[words...]").passThroughOptions().allowUnknownOption()
  const lines = Object.entries(examples).map(([line, does]) => `  ${line}\n      ${does}`)
  command.addHelpText("after", ({ command }) => {
    const title = command.createHelp().styleTitle("Examples:")
    return ["", title, ...lines].join("\n")
  })
}

/** Reads a value, and refuses what is probably a mistake, which the parser would let pass. */
function reader(choices: readonly string[] | undefined) {
  return (text: string, before: string | undefined): string => {
    if (before !== undefined) throw new InvalidArgumentError("It can be given only once.")
    // Usually an unset variable in a script.
    if (text === "") throw new InvalidArgumentError("It must not be empty.")
    if (choices !== undefined && !choices.includes(text))
      throw new InvalidArgumentError(`Allowed choices are ${choices.join(", ")}.`)
    return text
  }
}

/** As `reader`; an option where a value should be is not its value. */
function optionReader(choices: readonly string[] | undefined) {
  const read = reader(choices)
  return (text: string, before: string | undefined): string => {
    // Also `-h`: the parser would take it as the value, and `credit … --reason -h` would post a credit.
    if (/^(?:--|-[A-Za-z]+$)/.test(text)) throw new InvalidArgumentError("It needs a value.")
    return read(text, before)
  }
}

/** True if the parser stopped because it printed help or the version. */
function isHelp({ code }: CommanderError): boolean {
  return code === "commander.help" || code === "commander.helpDisplayed" || code === "commander.version"
}

/** The parser's message in one line, with its suggestion or where to look. */
function sentenceOf({ message }: CommanderError, path: readonly string[]): string {
  const sentence = message.replace(/^error: /, "").replaceAll("\n", " ")
  if (sentence.endsWith("?)")) return sentence
  return `${sentence.replace(/\.$/, "")}; see "${path.join(" ")} --help"`
}

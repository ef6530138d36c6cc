import { UsageError } from "./cli-error.ts"
import type { Argument, Command, Group } from "./command.ts"
import { leaf } from "./command.ts"

/** The supported shells: the completion script of each, and how to install it. */
const SHELLS: Readonly<
  Record<string, { readonly script: (root: Group) => string; readonly install: string }>
> = {
  bash: {
    script: bashScript,
    install: "tollgate completion bash > ~/.local/share/bash-completion/completions/tollgate",
  },
  zsh: {
    script: zshScript,
    install: "tollgate completion zsh > FOLDER/_tollgate, where FOLDER is in $fpath",
  },
  fish: {
    script: fishScript,
    install: "tollgate completion fish > ~/.config/fish/completions/tollgate.fish",
  },
}

/**
 * `tollgate completion`: static scripts, because those of libraries run the program at every Tab. Completes commands, flags and their values. `root` is a
 * function because it contains this command.
 */
export function completionOf(root: () => Group) {
  return leaf({
    summary: "Print a completion script for a shell",
    args: {
      shell: {
        type: "positional",
        valueHint: Object.keys(SHELLS).join("|"),
        description: "bash, zsh or fish",
      },
    },
    examples: [
      ["tollgate completion bash > tollgate.bash", "load it with: source tollgate.bash"],
      ["tollgate completion zsh > _tollgate", "put it into a folder of $fpath"],
      ["tollgate completion fish > tollgate.fish", "put it into ~/.config/fish/completions"],
    ],
    run(given, screen) {
      const shell = SHELLS[given.word("shell")]
      if (shell === undefined)
        throw new UsageError(`SHELL: expected one of ${Object.keys(SHELLS).join(", ")}`)
      screen.print(`# To install it permanently: ${shell.install}\n${shell.script(root())}`)
    },
  })
}

/** What can follow the words of `path`. */
interface Spot {
  /** The commands so far, separated by spaces. */
  readonly path: string
  readonly words: readonly (readonly [word: string, summary: string])[]
  /** Flags that take one of a fixed set of words. */
  readonly choices: readonly (readonly [flag: string, words: readonly string[]])[]
  /** Flags that take a file or a folder. */
  readonly files: readonly string[]
  /** Flags whose value is anything else. */
  readonly free: readonly string[]
}

/** The spot of a command and of all commands below it. */
export function spotsOf(command: Command, path: readonly string[] = []): Spot[] {
  const here = path.join(" ")
  if (command.kind === "group") {
    const entries = Object.entries(command.commands)
    const words = entries.map(([name, { summary }]) => [name, summary] as const)
    return [
      { path: here, words: [...words, HELP], choices: [], files: [], free: [] },
      ...entries.flatMap(([name, below]) => spotsOf(below, [...path, name])),
    ]
  }
  const args = Object.entries(command.args)
  const flags = args.filter(([, argument]) => argument.type !== "positional")
  const places = args.flatMap(([, { type, valueHint }]) =>
    type === "positional" && valueHint !== undefined ? valueHint.split("|") : [],
  )
  return [
    {
      path: here,
      words: [
        ...places.map((word) => [word, ""] as const),
        ...flags.map(([name, { description }]) => [`--${name}`, description] as const),
        HELP,
      ],
      choices: flags.flatMap(([name, argument]) =>
        argument.type === "enum" ? [[`--${name}`, argument.options ?? []] as const] : [],
      ),
      files: flags.flatMap(([name, argument]) => (isFile(argument) ? [`--${name}`] : [])),
      free: flags.flatMap(([name, argument]) =>
        argument.type === "string" && !isFile(argument) ? [`--${name}`] : [],
      ),
    },
  ]
}

function isFile({ valueHint }: Argument): boolean {
  return valueHint === "FILE" || valueHint === "DIR"
}

const HELP = ["--help", "show help and examples"] as const

/** The commands that have subcommands. */
function groupsOf(root: Group): string[] {
  return Object.entries(root.commands).flatMap(([name, command]) => (command.kind === "group" ? [name] : []))
}

/** A line of a shell's `case` for the flags that `pick` selects; empty if there are none. */
function caseOf(spots: readonly Spot[], pick: (spot: Spot) => readonly string[], action: string): string[] {
  const flags = spots.flatMap((spot) => pick(spot).map((flag) => quoted(`${spot.path} ${flag}`)))
  return flags.length === 0 ? [] : [`    ${flags.join("|")}) ${action} ;;`]
}

function bashScript(root: Group): string {
  const spots = spotsOf(root)
  const words = spots.map(
    ({ path, words }) => `    ${quoted(path)}) words=${quoted(words.map(([word]) => word).join(" "))} ;;`,
  )
  const values = [
    ...spots.flatMap(({ path, choices }) =>
      choices.map(([flag, words]) => `    ${quoted(`${path} ${flag}`)}) words=${quoted(words.join(" "))} ;;`),
    ),
    ...caseOf(spots, ({ files }) => files, 'COMPREPLY=($(compgen -f -- "$current")); return'),
    ...caseOf(spots, ({ free }) => free, "return"),
  ]
  return `function _tollgate() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} spot=\${COMP_WORDS[1]} words=
  COMPREPLY=()
  if [ "$COMP_CWORD" -le 1 ]; then spot=; fi
  case "$spot" in
    ${groupsOf(root).join("|")}) if [ "$COMP_CWORD" -gt 2 ]; then spot="$spot \${COMP_WORDS[2]}"; fi ;;
  esac
  case "$spot" in
${words.join("\n")}
  esac
  case "$spot $previous" in
${values.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _tollgate tollgate`
}

function zshScript(root: Group): string {
  const spots = spotsOf(root)
  const described = ([word, summary]: readonly [string, string]) =>
    quoted(summary === "" ? word : `${word}:${summary}`)
  const words = spots.map(
    ({ path, words }) => `    ${quoted(path)}) known=(${words.map(described).join(" ")}) ;;`,
  )
  const values = [
    ...spots.flatMap(({ path, choices }) =>
      choices.map(
        ([flag, words]) => `    ${quoted(`${path} ${flag}`)}) known=(${words.map(quoted).join(" ")}) ;;`,
      ),
    ),
    ...caseOf(spots, ({ files }) => files, "_files; return"),
    ...caseOf(spots, ({ free }) => free, "return"),
  ]
  return `#compdef tollgate
function _tollgate() {
  local previous=\${words[CURRENT-1]} spot=\${words[2]}
  local -a known
  if (( CURRENT <= 2 )); then spot=; fi
  case "$spot" in
    ${groupsOf(root).join("|")}) if (( CURRENT > 3 )); then spot="$spot \${words[3]}"; fi ;;
  esac
  case "$spot" in
${words.join("\n")}
  esac
  case "$spot $previous" in
${values.join("\n")}
  esac
  _describe tollgate known
}
if [ "$funcstack[1]" = _tollgate ]; then _tollgate "$@"; else compdef _tollgate tollgate; fi`
}

function fishScript(root: Group): string {
  const lines = spotsOf(root).flatMap((spot) => {
    const takes = new Map<string, string>([
      ...spot.choices.map(([flag, words]) => [flag, ` -x -a ${quoted(words.join(" "))}`] as const),
      ...spot.files.map((flag) => [flag, " -r -F"] as const),
      ...spot.free.map((flag) => [flag, " -x"] as const),
    ])
    const at = quoted(fishCondition(spot.path, root))
    return spot.words.map(([word, summary]) => {
      const what = word.startsWith("--")
        ? `-l ${word.slice(2)}${takes.get(word) ?? ""}`
        : `-a ${quoted(word)}`
      return `complete -c tollgate -n ${at} ${what}${summary === "" ? "" : ` -d ${quoted(summary)}`}`
    })
  })
  return `complete -c tollgate -f\n${lines.join("\n")}`
}

function fishCondition(path: string, root: Group): string {
  const [first = "", second] = path.split(" ")
  const group = root.commands[first]
  const seen = `__fish_seen_subcommand_from ${first}`
  if (first === "") return `not __fish_seen_subcommand_from ${Object.keys(root.commands).join(" ")}`
  if (second !== undefined) return `${seen}; and __fish_seen_subcommand_from ${second}`
  if (group?.kind !== "group") return seen
  return `${seen}; and not __fish_seen_subcommand_from ${Object.keys(group.commands).join(" ")}`
}

/** One word of a POSIX shell, whatever is in `text`. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

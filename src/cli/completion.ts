import type { Command } from "commander"
import { quoted } from "../start/banner.ts"

const INSTALL: Readonly<Record<string, string>> = {
  bash: "tollgate completion bash > ~/.local/share/bash-completion/completions/tollgate",
  zsh: "tollgate completion zsh > FOLDER/_tollgate, where FOLDER is in $fpath",
  fish: "tollgate completion fish > ~/.config/fish/completions/tollgate.fish",
}
export const shells: readonly string[] = Object.keys(INSTALL)

/** The script that completes commands, flags and their values; static, so that no Tab starts the program. */
export function completionScript(shell: string, program: Command): string {
  const spots = spotsOf(program)
  const script = shell === "fish" ? fishScript(spots) : caseScript(spots, shell === "zsh")
  return `# To install it permanently: ${INSTALL[shell]}\n${script}`
}

/** The words that can follow those of `path`. */
interface Spot {
  /** The commands so far, separated by spaces. */
  readonly path: string
  /** The commands that can follow; none below a command that runs. */
  readonly commands: readonly string[]
  readonly words: readonly Word[]
}

interface Word {
  readonly word: string
  readonly summary: string
  /** The value after the word: nothing, one of some words, a file, or any value. */
  readonly takes: "nothing" | "file" | "any" | readonly string[]
}

function spotsOf(command: Command, path: readonly string[] = []): Spot[] {
  const { commands, options, registeredArguments } = command
  const plain = (word: string, summary: string): Word => ({ word, summary, takes: "nothing" })
  const choices = registeredArguments.flatMap(({ argChoices }) => argChoices ?? [])
  const flags = options
    .filter(({ long }) => long !== "--version")
    .map(({ long, description, argChoices, flags, required }): Word => {
      const takes = /<(?:FILE|DIR)>/.test(flags) ? "file" : required ? "any" : "nothing"
      return { word: long ?? "", summary: description, takes: argChoices ?? takes }
    })
  const words = [
    ...commands.map((below) => plain(below.name(), below.summary())),
    ...choices.map((choice) => plain(choice, "")),
    ...flags,
    plain("--help", "show help and examples"),
  ]
  return [
    { path: path.join(" "), commands: commands.map((below) => below.name()), words },
    ...commands.flatMap((below) => spotsOf(below, [...path, below.name()])),
  ]
}

/** For bash and zsh: which words can follow the commands, and which the flag before the cursor. */
function caseScript(spots: readonly Spot[], is_zsh: boolean): string {
  const described = ({ word, summary }: Word) =>
    is_zsh ? quoted(summary === "" ? word : `${word}:${summary}`) : word
  const offer = (words: readonly string[]) =>
    is_zsh ? `words_=(${words.join(" ")})` : `words_=${quoted(words.join(" "))}`
  const files = is_zsh ? "_files; return" : 'COMPREPLY=($(compgen -f -- "$current")); return'
  const follow = ({ takes }: Word) =>
    takes === "file"
      ? files
      : takes === "any"
        ? "return"
        : offer(is_zsh ? [...takes].map(quoted) : [...takes])
  const known = spots.map(({ path, words }) => `    ${quoted(path)}) ${offer(words.map(described))} ;;`)
  const values = spots.flatMap(({ path, words }) =>
    words
      .filter(({ takes }) => takes !== "nothing")
      .map((word) => `    ${quoted(`${path} ${word.word}`)}) ${follow(word)} ;;`),
  )
  const groups = spots.filter(({ path, commands }) => path !== "" && commands.length > 0)
  const cases = `  case "$spot" in
    ${groups.map(({ path }) => path).join("|")}) if [ "$at" -gt 2 ]; then spot="$spot $second"; fi ;;
  esac
  case "$spot" in
${known.join("\n")}
  esac
  case "$spot $previous" in
${values.join("\n")}
  esac`
  if (is_zsh)
    return `#compdef tollgate
function _tollgate() {
  local at=$((CURRENT - 1)) spot=\${words[2]} second=\${words[3]} previous=\${words[CURRENT-1]}
  local -a words_
  if [ "$at" -le 1 ]; then spot=; fi
${cases}
  _describe tollgate words_
}
if [ "$funcstack[1]" = _tollgate ]; then _tollgate "$@"; else compdef _tollgate tollgate; fi`
  return `function _tollgate() {
  local at=$COMP_CWORD spot=\${COMP_WORDS[1]} second=\${COMP_WORDS[2]} previous=\${COMP_WORDS[COMP_CWORD-1]}
  local current=\${COMP_WORDS[COMP_CWORD]} words_=
  COMPREPLY=()
  if [ "$at" -le 1 ]; then spot=; fi
${cases}
  COMPREPLY=($(compgen -W "$words_" -- "$current"))
}
complete -F _tollgate tollgate`
}

function fishScript(spots: readonly Spot[]): string {
  const seen = (words: string) => `__fish_seen_subcommand_from ${words}`
  const lines = spots.flatMap(({ path, commands, words }) => {
    const inside = path === "" ? [] : path.split(" ").map(seen)
    const below = commands.length === 0 ? [] : [`not ${seen(commands.join(" "))}`]
    const when = quoted([...inside, ...below].join("; and "))
    return words.map(({ word, summary, takes }) => {
      const what = word.startsWith("--") ? `-l ${word.slice(2)}` : `-a ${quoted(word)}`
      const value = { nothing: "", any: " -x", file: " -r -F" }
      const follow = typeof takes === "string" ? value[takes] : ` -x -a ${quoted(takes.join(" "))}`
      const text = summary === "" ? "" : ` -d ${quoted(summary)}`
      return `complete -c tollgate -n ${when} ${what}${follow}${text}`
    })
  })
  return `complete -c tollgate -f\n${lines.join("\n")}`
}

import { parseArgs } from "node:util"

export type Command =
  | { readonly kind: "help" }
  | ({
      readonly kind: "suite"
      readonly quick: boolean
      readonly only: readonly string[]
      readonly rounds: number | null
    } & Output)
  | ({ readonly kind: "history"; readonly calls: number } & Output)

export interface Output {
  /** Where results are written; null for a new file below `bench-results/`. */
  readonly json: string | null
}

export const USAGE = `bun run bench                    every scenario, side by side: the provider alone, a bare pass-through, Tollgate
  --quick                        all of it in under two minutes, as a smoke test
  --only NAME                    only this scenario; may be given several times
  --rounds N                     instead of 5, or 2 with --quick

bun run bench --history          sizes, questions, seals and audits of 20 million past calls
  --calls N                      instead of that number; 1 KB of disk for each

  --json FILE                    where to write the results, instead of bench-results/`

const options = {
  help: { type: "boolean", short: "h", default: false },
  quick: { type: "boolean", default: false },
  only: { type: "string", multiple: true },
  rounds: { type: "string" },
  history: { type: "boolean", default: false },
  calls: { type: "string" },
  json: { type: "string" },
} as const

/** Parses the arguments; throws a sentence for the user. */
export function readCommand(args: readonly string[]): Command {
  const { values } = parseArgs({ args: [...args], options, strict: true, allowPositionals: false })
  const output = { json: values.json ?? null }
  if (values.help) return { kind: "help" }
  if (values.history)
    return { kind: "history", calls: count("--calls", values.calls ?? "20000000"), ...output }
  const rounds = values.rounds === undefined ? null : count("--rounds", values.rounds)
  return { kind: "suite", quick: values.quick, only: values.only ?? [], rounds, ...output }
}

function count(option: string, text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new Error(`${option}: expected a whole number above 0`)
  return Number(text)
}

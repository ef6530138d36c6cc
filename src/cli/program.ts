import { CommanderError } from "commander"
import manifest from "../../package.json" with { type: "json" }
import { accounts, credit } from "./accounts.ts"
import { budget } from "./budgets.ts"
import { calls, receipt } from "./calls.ts"
import { check } from "./check.ts"
import { CliError } from "./cli-error.ts"
import { commandOf, type Group, type Leaf, leaf } from "./command.ts"
import { completionScript, shells } from "./completion.ts"
import { customerPrice } from "./customer-prices.ts"
import { events } from "./events.ts"
import { statement, trialBalance } from "./finance.ts"
import { keys } from "./keys.ts"
import { audit, audits, journal, sums } from "./ledger-checks.ts"
import { log, operators } from "./operators.ts"
import { priceLists } from "./price-lists.ts"
import { prices } from "./prices.ts"
import { reconcile } from "./reconcile.ts"
import { attempts, estimates, refusals, usage } from "./reports.ts"
import type { Runtime } from "./screen.ts"
import { bench, serve } from "./serve.ts"
import { sinks } from "./sinks.ts"

const completion: Leaf = leaf({
  summary: "Print a completion script for a shell",
  words: { "<shell>": ["for which shell", shells] },
  examples: {
    "tollgate completion bash > tollgate.bash": "load it with: source tollgate.bash",
    "tollgate completion zsh > _tollgate": "put it into a folder of $fpath",
    "tollgate completion fish > tollgate.fish": "put it into ~/.config/fish/completions",
  },
  run: ({ shell }, runtime) => runtime.print(completionScript(shell, programOf(runtime))),
})

export const root: Group = {
  summary: "Tollgate, an LLM gateway with exact billing by the token",
  commands: {
    serve,
    check,
    accounts,
    credit,
    keys,
    budget,
    "customer-price": customerPrice,
    "price-lists": priceLists,
    calls,
    receipt,
    events,
    sinks,
    operators,
    log,
    prices,
    usage,
    statement,
    "trial-balance": trialBalance,
    refusals,
    attempts,
    reconcile,
    estimates,
    audit,
    audits,
    sums,
    journal,
    bench,
    completion,
  },
}

export function programOf(runtime: Runtime) {
  return commandOf(["tollgate"], root, runtime).version(
    manifest.version,
    "-v, --version",
    "print the version",
  )
}

/** Runs a command line. The exit code: 0, 1 if it failed, 2 if it is invalid. A failure prints one sentence. */
export async function runProgram(words: readonly string[], runtime: Runtime): Promise<number> {
  try {
    await programOf(runtime).parseAsync(completed(words), { from: "user" })
    return 0
  } catch (error) {
    if (error instanceof CommanderError) return 0
    if (!(error instanceof CliError)) throw error
    runtime.printError(error.message)
    return error.exit_code
  }
}

function isKnown([name = "", ...others]: readonly string[], { commands }: Group): boolean {
  if (name === "" || name.startsWith("-")) return true
  const below = Object.hasOwn(commands, name) ? commands[name] : undefined
  return below !== undefined && (!("commands" in below) || isKnown(others, below))
}

/** With the standard command of a group if none is named; `help keys` is `keys --help`. */
function completed(words: readonly string[]): string[] {
  const [name = "", next, ...others] = words
  if (name === "help") return completed([...words.slice(1), "--help"])
  // Without --help, so that the parser refuses it: it would show the help of the group above.
  if (!isKnown(words, root)) return words.filter((word) => word !== "--help" && word !== "-h")
  const group = Object.hasOwn(root.commands, name) ? root.commands[name] : undefined
  if (group === undefined || !("commands" in group) || group.standard === undefined) return [...words]
  const asks_help = [next, ...others].some((word) => word === "--help" || word === "-h")
  if (asks_help || (next !== undefined && !next.startsWith("-"))) return [...words]
  return [name, group.standard, ...words.slice(1)]
}

import manifest from "../../package.json" with { type: "json" }
import { accounts } from "./accounts.ts"
import { parseCommandLine } from "./arguments.ts"
import { audit } from "./audit.ts"
import { calls, receipt } from "./calls.ts"
import { check } from "./check.ts"
import { CliError } from "./cli-error.ts"
import { type Group, given, group } from "./command.ts"
import { completionOf } from "./completion.ts"
import { credit } from "./credit.ts"
import { estimates } from "./estimates.ts"
import { helpOf } from "./help.ts"
import { journal } from "./journal.ts"
import { keys } from "./keys.ts"
import { prices } from "./prices.ts"
import { refusals } from "./refusals.ts"
import type { Runtime } from "./screen.ts"
import { bench, serve } from "./serve.ts"
import { sums } from "./sums.ts"
import { usage } from "./usage.ts"

/** All commands. */
export const root: Group = group("Tollgate, an LLM gateway with exact billing by the token", {
  serve,
  check,
  accounts,
  credit,
  keys,
  calls,
  receipt,
  prices,
  usage,
  refusals,
  estimates,
  audit,
  sums,
  journal,
  bench,
  completion: completionOf(() => root),
})

/**
 * Runs a command line and returns the exit code: 0, 1 if the command failed, 2 if the command line is invalid. A failure
 * prints one sentence to standard error.
 */
export async function runProgram(words: readonly string[], runtime: Runtime): Promise<number> {
  if (words.length === 1 && (words[0] === "--version" || words[0] === "-v")) {
    runtime.print(manifest.version)
    return 0
  }
  try {
    const asked = parseCommandLine(root, words)
    if (asked.what === "help") runtime.print(helpOf(asked.path, asked.command, runtime.paint, runtime.width))
    else await asked.leaf.run(given(asked.values), runtime, asked.words)
    return 0
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    runtime.printError(error.message)
    return error.exit_code
  }
}

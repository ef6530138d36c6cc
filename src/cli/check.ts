import { sourcesWith } from "../start/setup.ts"
import { CliError } from "./cli-error.ts"
import { leaf } from "./command.ts"
import type { Finding } from "./finding.ts"
import { type Screen, visible } from "./screen.ts"
import { START_WORDS, variablesOf } from "./serve.ts"

export const check = leaf({
  summary: "Check everything that the gateway needs to start",
  details:
    "Reads the environment and the configuration, connects to the database, lists the models of each upstream with each key, and binds the port. Shows the preset of each upstream. Changes nothing, and costs nothing without --call. The exit code is 1 if a check fails.",
  words: {
    ...START_WORDS,
    "--call":
      "also make one call of one token for each model of each upstream (at most 10) with each of its keys, and report faults of the answers",
    "--calls":
      "also ask the running gateway for models whose calls of the last 7 days may be charged wrongly",
    "--json": "print the results as JSON",
  },
  examples: {
    "tollgate check": "works before the start and while a gateway runs",
    "tollgate check --call": "also one call for each model of each upstream: its path, key, name and usage",
    "tollgate check --calls": "also models whose usage has unknown numbers, or costs more than the charge",
    "tollgate check --config tollgate.yaml --json": "as JSON, for scripts",
  },
  async run({ call, calls, json, ...given }, screen) {
    // Loaded on demand: the other commands start faster without the database driver.
    const { inspect } = await import("./inspection.ts")
    const sources = sourcesWith({ ...screen.env, ...variablesOf(given) })
    const findings = await inspect(sources, call === true)
    if (calls) {
      const { inspectCalls } = await import("./inspect-calls.ts")
      findings.push(...(await inspectCalls(sources)))
    }
    const wrong = findings.filter(({ ok }) => !ok).length
    if (json) screen.print(JSON.stringify({ ok: wrong === 0, findings }, null, 2))
    else screen.print(findings.map((finding) => line(finding, screen)).join("\n"))
    if (wrong > 0) throw new CliError(`${wrong} of ${findings.length} checks failed`)
  },
})

function line({ what, ok, found, fix }: Finding, { paint }: Screen): string {
  const mark = ok ? paint("green", "✓") : paint("red", "✗")
  const line = `${mark} ${paint("bold", visible(what))}: ${visible(found)}`
  return fix === null ? line : `${line}\n  ${fix}`
}

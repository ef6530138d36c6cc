import type { Command } from "./command.ts"
import { HISTORY_STEPS, history } from "./history.ts"
import { OwnPostgres } from "./own-postgres.ts"
import { Progress } from "./progress.ts"
import { Rig } from "./rig.ts"
import type { Scenario, Size } from "./scenario.ts"
import { scenarios } from "./scenarios.ts"
import { Suite, specsOf, stepsOf } from "./suite.ts"
import { historyTable, suiteTable } from "./table.ts"

/** The result of a run: text for the terminal, and the content of the file. */
export interface RunResult {
  readonly text: string
  /** `faults` says why the run failed; empty when it did not. */
  readonly results: { readonly faults: readonly string[] }
}

type Of<Kind extends Command["kind"]> = Extract<Command, { kind: Kind }>

const FULL: Size = { name: "full", rounds: 5, measure_ms: 3000, warm_ms: 500 }
const QUICK: Size = { name: "quick", rounds: 2, measure_ms: 300, warm_ms: 50 }

export function run(command: Exclude<Command, { kind: "help" }>): Promise<RunResult> {
  return command.kind === "suite" ? runSuite(command) : runHistory(command)
}

async function runSuite({ quick, rounds, only }: Of<"suite">): Promise<RunResult> {
  const plain = quick ? QUICK : FULL
  const size = { ...plain, rounds: rounds ?? plain.rounds }
  const chosen = choose(only)
  const rig = new Rig(specsOf(chosen, size))
  const results = await onRig(rig, stepsOf(chosen, size), (progress) =>
    new Suite(rig, size, progress).run(chosen),
  )
  return { text: suiteTable(results), results }
}

async function runHistory({ calls }: Of<"history">): Promise<RunResult> {
  const own = new OwnPostgres()
  const results = await onRig(own, HISTORY_STEPS, (progress) => history(own, calls, progress))
  return { text: historyTable(results), results }
}

/** Starts what `work` needs, runs it, and ends all processes in every case, also on a signal. */
async function onRig<T>(
  rig: Pick<Rig, "start" | "stop">,
  steps: number,
  work: (progress: Progress) => Promise<T>,
): Promise<T> {
  const progress = new Progress(steps)
  let ended: Promise<void> | null = null
  const end = () => {
    ended ??= rig.stop()
    return ended
  }
  let stopped: Promise<never> | null = null
  const stop = () => {
    stopped ??= end().then(() => process.exit(130))
  }
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, stop)
  try {
    await rig.start()
    return await work(progress)
  } finally {
    await end()
    // After a signal, errors are only about processes that were ended.
    await stopped
  }
}

function choose(names: readonly string[]): readonly Scenario[] {
  if (names.length === 0) return scenarios
  return names.map((name) => {
    const scenario = scenarios.find((each) => each.name === name)
    if (scenario === undefined) {
      throw new Error(`--only: expected one of ${scenarios.map((each) => each.name).join(", ")}`)
    }
    return scenario
  })
}

import type { Payer } from "./admin.ts"
import { type AnswerSpec, operationPath, streamEvents, streamOf } from "./answer-spec.ts"
import { Auditor } from "./auditor.ts"
import type { Child } from "./child.ts"
import { type Arrival, type Job, Report } from "./job.ts"
import { AuditAnswer } from "./ledger-load.ts"
import { loadWarnings } from "./load-cost.ts"
import { runFacts } from "./machine.ts"
import type { Progress } from "./progress.ts"
import { requestBody, requestHeaders } from "./prompt.ts"
import { type AnswerSpecs, pathOf } from "./provider.ts"
import { type Results, type Round, resultOf, type ScenarioResult } from "./results.ts"
import { type Rig, type TargetName, targets } from "./rig.ts"
import {
  type HttpScenario,
  type HttpSide,
  type Measured,
  measuredOf,
  type PairsScenario,
  type PairsSide,
  reaches,
  type Scenario,
  type Size,
} from "./scenario.ts"

/** By what factor a quick run may miss a goal: it only shows that everything works, on any machine. */
const QUICK_SLACK = 10
const SHORT_PROMPT_BYTES = 600
/** Code is slow the first time it runs: all targets are loaded before the first round. */
const WARM_UP: AnswerSpecs = {
  "warm-json": { kind: "json", content_bytes: 400, delay_ms: 0 },
  "warm-stream": streamOf(20),
}
const WARM_UP_CALLS = 300
/** A full run begins with processes whose hot code is compiled, as in production. */
const RUN_IN_CALLS = 6_000

/** The answers that the provider of a run must give. */
export function specsOf(scenarios: readonly Scenario[], size: Size): AnswerSpecs {
  const own = scenarios.flatMap((scenario) =>
    "spec" in scenario ? [[scenario.name, scenario.spec(size)] as const] : [],
  )
  return { ...WARM_UP, ...Object.fromEntries(own) }
}

/** How many steps a run has, for its progress. */
export function stepsOf(scenarios: readonly Scenario[], { rounds }: Size): number {
  return scenarios.reduce((sum, { sides }) => sum + rounds * sides.length, 0)
}

interface Load {
  readonly name: string
  readonly spec: AnswerSpec
  readonly prompt_bytes: number
  readonly arrival: Arrival
  readonly payer: Payer
}

/** Runs scenarios on a started rig: targets side by side, in interleaved rounds, each scenario audited. */
export class Suite {
  readonly #rig: Rig
  readonly #size: Size
  readonly #progress: Progress
  readonly #auditor: Auditor

  constructor(rig: Rig, size: Size, progress: Progress) {
    this.#rig = rig
    this.#size = size
    this.#progress = progress
    this.#auditor = new Auditor(rig)
  }

  async run(scenarios: readonly Scenario[]): Promise<Results> {
    const started = new Date()
    await this.#warmUp(targets, this.#size.name === "full" ? RUN_IN_CALLS : WARM_UP_CALLS)
    const done: ScenarioResult[] = []
    const failures: string[] = []
    for (const scenario of scenarios) {
      try {
        done.push(await this.#scenario(scenario))
      } catch (error) {
        // A scenario that cannot be measured fails the run, but the others are still reported.
        failures.push(`${scenario.name}: ${error instanceof Error ? error.message : String(error)}`)
      }
    }
    const audit = await this.#auditor.close()
    return {
      kind: "suite",
      ...runFacts(started),
      size: this.#size.name,
      scenarios: done,
      audit,
      warnings: loadWarnings(done),
      faults: [...audit.faults, ...failures, ...done.flatMap((result) => faultsOf(result, this.#size))],
    }
  }

  async #scenario(scenario: Scenario): Promise<ScenarioResult> {
    const rounds = scenario.kind === "http" ? await this.#http(scenario) : await this.#pairs(scenario)
    return resultOf(scenario, rounds)
  }

  async #http(scenario: HttpScenario<string>): Promise<Round[]> {
    const { name, title, fresh, prompt_bytes, reference } = scenario
    const payer = await this.#auditor.payer(name)
    const spec = scenario.spec(this.#size)
    const load: Load = { name, spec, prompt_bytes, arrival: scenario.arrival(this.#size), payer }
    const rounds: Round[] = []
    try {
      while (rounds.length < this.#size.rounds) {
        if (fresh) await this.#restart()
        const measured = await this.#sides(scenario, (side: HttpSide<string>) => this.#measure(load, side))
        rounds.push({ measured, reference_ms: (await reference?.measure(this.#rig)) ?? null })
      }
      return rounds
    } finally {
      this.#progress.say(`${title}: audit`)
      await this.#auditor.check(payer)
    }
  }

  /** Each side is measured once before the first round, so that its code is compiled. */
  async #pairs(scenario: PairsScenario<string>): Promise<Round[]> {
    const accounts = scenario.accounts(this.#size)
    const ledgers = new Map<number, Child>()
    const measure = async ({ shards, how, in_flight }: PairsSide<string>) => {
      const ledger = ledgers.get(shards) ?? this.#rig.startLedger()
      ledgers.set(shards, ledger)
      const question = { shards, how, accounts, in_flight, duration_ms: this.#size.measure_ms }
      return measuredOf(await ledger.ask(Report, { what: "pairs", ...question }), "pair", in_flight)
    }
    const rounds: Round[] = []
    try {
      this.#progress.say(`${scenario.title}: start`)
      for (const side of scenario.sides) await measure(side)
      while (rounds.length < this.#size.rounds)
        rounds.push({ measured: await this.#sides(scenario, measure), reference_ms: null })
      for (const ledger of ledgers.values()) {
        const { violations, open_holds } = await ledger.ask(AuditAnswer, { what: "audit" })
        if (violations + open_holds > 0)
          throw new Error(`the audit found ${violations} violations and ${open_holds} open holds`)
      }
      return rounds
    } finally {
      await this.#rig.stopLedgers()
    }
  }

  async #sides<Side extends { readonly name: string }>(
    { title, sides }: { readonly title: string; readonly sides: readonly Side[] },
    measure: (side: Side) => Promise<Measured>,
  ): Promise<Map<string, Measured>> {
    const measured = new Map<string, Measured>()
    for (const side of sides) {
      this.#progress.step(`${title}: ${side.name}`)
      measured.set(side.name, await measure(side))
    }
    return measured
  }

  async #measure(load: Load, { target, workers }: HttpSide<string>): Promise<Measured> {
    const { arrival } = load
    if (workers !== null) {
      await this.#rig.restartTollgate(workers)
      await this.#warmUp(["tollgate"])
    }
    const report = await this.#rig.load(this.#job(load, target))
    const held = arrival.kind === "held"
    if (held && report.measured_ms < arrival.window_ms / 2) {
      throw new Error(`on ${target} the first stream ended before all of them ran`)
    }
    return measuredOf(report, held ? "event" : "call", arrival.connections)
  }

  async #restart(): Promise<void> {
    await this.#rig.restart()
    await this.#warmUp()
  }

  async #warmUp(on: readonly TargetName[] = targets, calls = WARM_UP_CALLS): Promise<void> {
    const payer = await this.#auditor.payer("warm-up")
    const arrival: Arrival = { kind: "calls", connections: 16, calls }
    for (const [name, spec] of Object.entries(WARM_UP)) {
      const load = { name, spec, prompt_bytes: SHORT_PROMPT_BYTES, arrival, payer }
      for (const target of on) await this.#rig.load({ ...this.#job(load, target), warm_ms: 0 })
    }
    await this.#auditor.check(payer)
  }

  #job({ name, spec, prompt_bytes, arrival, payer }: Load, target: TargetName): Job {
    const operation = operationPath(spec)
    return {
      ...this.#rig.target(target),
      path: target === "tollgate" ? operation : pathOf(name) + operation,
      headers: requestHeaders(payer.key, spec),
      body: requestBody(name, spec, prompt_bytes),
      stream: streamEvents(spec),
      arrival,
      warm_ms: this.#size.warm_ms,
    }
  }
}

/** Failed calls fail the run. A missed goal fails only a quick run, and only when it is missed by far. */
function faultsOf({ name, sides, figures }: ScenarioResult, size: Size): string[] {
  const failed = Object.entries(sides).flatMap(([side, { failures }]) =>
    Object.entries(failures).map(([what, count]) => `${name}: ${count} calls to ${side} failed: ${what}`),
  )
  const missed = figures
    .filter(({ median, goal }) => size.name === "quick" && !reaches(median, goal, QUICK_SLACK))
    .map((figure) => `${name}: ${figure.name} is ${figure.median.toFixed(2)}, far off its goal`)
  return [...failed, ...missed]
}

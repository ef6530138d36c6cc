import type { Payer } from "./admin.ts"
import { type AnswerSpec, operationPath, streamOf } from "./answer-spec.ts"
import { Auditor } from "./auditor.ts"
import type { Child } from "./child.ts"
import type { Arrival, Job } from "./job.ts"
import { AuditAnswer, PairsAnswer } from "./ledger-load.ts"
import { loadWarnings } from "./load-cost.ts"
import { runFacts } from "./machine.ts"
import type { Progress } from "./progress.ts"
import { requestBody, requestHeaders } from "./prompt.ts"
import { type AnswerSpecs, pathOf } from "./provider.ts"
import type { Results, ScenarioResult } from "./results.ts"
import { type Rig, type TargetName, targets } from "./rig.ts"
import {
  type HttpRound,
  type HttpScenario,
  type LedgerRound,
  type LedgerScenario,
  type Measured,
  measuredOf,
  pairsOf,
  reaches,
  type Scenario,
  type ShardsRound,
  type ShardsScenario,
  type Size,
  type WorkersRound,
  type WorkersScenario,
} from "./scenario.ts"
import { httpResult, ledgerResult, shardsResult, workersResult } from "./scenario-result.ts"

/** By what factor a quick run may miss a goal: it only shows that everything works, on any machine. */
const QUICK_SLACK = 10
const SHORT_PROMPT_BYTES = 600
/** Code is slow the first time it runs: all targets are loaded before the first round. */
const WARM_UP: AnswerSpecs = {
  "warm-json": { kind: "json", content_bytes: 400, delay_ms: 0 },
  "warm-stream": streamOf(20),
}
/** Extra warm-up for several workers with many connections. */
const WORKERS_WARM_MS = 500
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
export function stepsOf(scenarios: readonly Scenario[], size: Size): number {
  const steps = {
    http: size.rounds * targets.length,
    ledger: size.rounds * 2,
    workers: workersRounds(size) * 2,
    shards: size.rounds * 3,
  }
  return scenarios.reduce((sum, { kind }) => sum + steps[kind], 0)
}

/** Fewer rounds, because each starts the gateway twice, which takes longer than measuring. */
function workersRounds({ rounds }: Size): number {
  return Math.ceil(rounds / 2)
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

  #scenario(scenario: Scenario): Promise<ScenarioResult> {
    switch (scenario.kind) {
      case "http":
        return this.#http(scenario)
      case "ledger":
        return this.#ledger(scenario)
      case "workers":
        return this.#workers(scenario)
      case "shards":
        return this.#shards(scenario)
    }
  }

  async #http(scenario: HttpScenario): Promise<ScenarioResult> {
    const { name, title, fresh, prompt_bytes, reference } = scenario
    const payer = await this.#auditor.payer(name)
    const spec = scenario.spec(this.#size)
    const load: Load = { name, spec, prompt_bytes, arrival: scenario.arrival(this.#size), payer }
    const rounds: HttpRound[] = []
    try {
      for (let round = 1; round <= this.#size.rounds; round++) {
        if (fresh) await this.#restart()
        const measure = (target: TargetName) => {
          this.#progress.step(`${title}: round ${round}, ${target}`)
          return this.#measure(load, target)
        }
        rounds.push({
          direct: await measure("direct"),
          bare: await measure("bare"),
          tollgate: await measure("tollgate"),
          reference_ms: (await reference?.measure(this.#rig)) ?? null,
        })
      }
    } finally {
      this.#progress.say(`${title}: audit`)
      await this.#auditor.check(payer)
    }
    return httpResult(scenario, this.#size, rounds)
  }

  async #ledger(scenario: LedgerScenario): Promise<ScenarioResult> {
    const { title, accounts, in_flight } = scenario
    const pairs = async (how: "batch_queues" | "single") => {
      this.#progress.step(`${title}: ${how === "single" ? "one statement per call" : "batch queues"}`)
      const question = { what: "pairs", how, accounts, in_flight, duration_ms: this.#size.measure_ms }
      const answer = await this.#rig.ledger.ask(PairsAnswer, question)
      return pairsOf(answer)
    }
    const rounds: LedgerRound[] = []
    for (let round = 1; round <= this.#size.rounds; round++) {
      rounds.push({ batch_queues: await pairs("batch_queues"), single: await pairs("single") })
    }
    return ledgerResult(scenario, rounds)
  }

  /** Several workers first, so that the next scenario has a gateway with one process. */
  async #workers(scenario: WorkersScenario): Promise<ScenarioResult> {
    const { name, title, prompt_bytes } = scenario
    const payer = await this.#auditor.payer(name)
    const spec = scenario.spec(this.#size)
    const load: Load = { name, spec, prompt_bytes, arrival: scenario.arrival(this.#size), payer }
    const measure = async (workers: number) => {
      this.#progress.step(`${title}: ${workers}`)
      await this.#rig.restartTollgate(workers)
      await this.#warmUp(["tollgate"])
      const job = { ...this.#job(load, "tollgate"), warm_ms: this.#size.warm_ms + WORKERS_WARM_MS }
      return measuredOf(await this.#rig.load(job), load.arrival)
    }
    const rounds: WorkersRound[] = []
    try {
      for (let round = 1; round <= workersRounds(this.#size); round++) {
        rounds.push({ several: await measure(scenario.workers), one: await measure(1) })
      }
    } finally {
      this.#progress.say(`${title}: audit`)
      await this.#auditor.check(payer)
    }
    return workersResult(scenario, this.#size, rounds)
  }

  /** Each side has its own process and its own Postgres. Both run once unmeasured, so that their code is compiled. */
  async #shards(scenario: ShardsScenario): Promise<ScenarioResult> {
    const { title, in_flight } = scenario
    const accounts = scenario.accounts(this.#size)
    const ask = async (ledger: Child, at_once: number) => {
      const { measure_ms: duration_ms } = this.#size
      const question = { what: "pairs", how: "batch_queues", accounts, in_flight: at_once, duration_ms }
      return pairsOf(await ledger.ask(PairsAnswer, question))
    }
    const measure = (words: string, ledger: Child, at_once: number) => {
      this.#progress.step(`${title}: ${words}, ${at_once} in flight`)
      return ask(ledger, at_once)
    }
    const rounds: ShardsRound[] = []
    try {
      this.#progress.say(`${title}: start`)
      const [one, two] = await Promise.all([this.#rig.startShards(1), this.#rig.startShards(2)])
      for (const ledger of [one, two]) await ask(ledger, in_flight)
      for (let round = 1; round <= this.#size.rounds; round++) {
        rounds.push({
          one: await measure("1 shard", one, in_flight),
          two: await measure("2 shards", two, in_flight),
          two_full: await measure("2 shards", two, 2 * in_flight),
        })
      }
      for (const ledger of [one, two]) {
        const { violations, open_holds } = await ledger.ask(AuditAnswer, { what: "audit" })
        if (violations + open_holds > 0)
          throw new Error(`the audit found ${violations} violations and ${open_holds} open holds`)
      }
    } finally {
      await this.#rig.stopShards()
    }
    return shardsResult(scenario, accounts, rounds)
  }

  async #measure(load: Load, target: TargetName): Promise<Measured> {
    const { arrival } = load
    const report = await this.#rig.load(this.#job(load, target))
    if (arrival.kind === "held" && report.measured_ms < arrival.window_ms / 2) {
      throw new Error(`on ${target} the first stream ended before all of them ran`)
    }
    return measuredOf(report, arrival)
  }

  async #restart(): Promise<void> {
    await this.#rig.restart()
    await this.#warmUp()
  }

  async #warmUp(on: readonly TargetName[] = targets, calls = WARM_UP_CALLS): Promise<void> {
    const payer = await this.#auditor.payer("warm-up")
    const arrival: Arrival = { kind: "calls", connections: 16, calls }
    for (const [name, spec] of Object.entries(WARM_UP)) {
      const load = {
        name,
        spec,
        prompt_bytes: SHORT_PROMPT_BYTES,
        arrival,
        payer,
      }
      for (const target of on) await this.#rig.load({ ...this.#job(load, target), warm_ms: 0 })
    }
    await this.#auditor.check(payer)
  }

  #job({ name, spec, prompt_bytes, arrival, payer }: Load, target: TargetName): Job {
    const { port, pid, postgres_pid } = this.#rig.target(target)
    const operation = operationPath(spec)
    return {
      origin: { host: "127.0.0.1", port },
      path: target === "tollgate" ? operation : pathOf(name) + operation,
      headers: requestHeaders(payer.key, spec),
      body: requestBody(name, spec, prompt_bytes),
      stream: spec.kind === "stream",
      arrival,
      warm_ms: this.#size.warm_ms,
      leave_after: null,
      pid,
      postgres_pid,
    }
  }
}

/** Failed calls fail the run. A missed goal fails only a quick run, and only when it is missed by far. */
function faultsOf({ name, targets: found, figures }: ScenarioResult, size: Size): string[] {
  const failed = Object.entries(found ?? {}).flatMap(([target, { failures }]) =>
    Object.entries(failures).map(([what, count]) => `${name}: ${count} calls to ${target} failed: ${what}`),
  )
  const missed = figures
    .filter(({ median, goal }) => size.name === "quick" && !reaches(median, goal, QUICK_SLACK))
    .map((figure) => `${name}: ${figure.name} is ${figure.median.toFixed(2)}, far off its goal`)
  return [...failed, ...missed]
}

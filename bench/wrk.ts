import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Subprocess } from "bun"
import { streamOf } from "./answer-spec.ts"
import { type RunFacts, runFacts } from "./machine.ts"
import { cpuTimes, spent } from "./process-status.ts"
import type { Progress } from "./progress.ts"
import { requestBody, requestHeaders } from "./prompt.ts"
import { type AnswerSpecs, pathOf } from "./provider.ts"
import type { Rig, TargetName } from "./rig.ts"
import { median, type Spread, spread } from "./statistics.ts"
import { parseWrk, type WrkOutput, wrkScript } from "./wrk-program.ts"

/** What a run with `wrk` as the load generator found. */
export interface WrkResults extends RunFacts {
  readonly kind: "wrk"
  readonly accounts: number
  readonly rounds: number
  /** The command of one measurement, with the address of the target left open. */
  readonly command: string
  readonly scenarios: readonly WrkScenarioResult[]
  readonly faults: readonly string[]
}

export interface WrkScenarioResult {
  readonly name: string
  readonly title: string
  /** Calls per second of Tollgate by those of bare. */
  readonly ratio: Spread
  readonly bare: WrkTargetResult
  readonly tollgate: WrkTargetResult
}

export interface WrkTargetResult {
  readonly calls_per_s: number
  readonly p50_ms: number
  readonly p99_ms: number
  /** CPU microseconds per call. */
  readonly process_us: number
  readonly postgres_us: number
  readonly wrk_us: number
}

export interface WrkOptions {
  readonly accounts: number
  readonly rounds: number
  readonly seconds: number
  /** Names of scenarios; empty for all. */
  readonly only: readonly string[]
}

type Kind = "json" | "stream"

const PROMPT_BYTES = 600
/** A provider that writes each event by itself costs more than bare, which would hide what the gateway costs. */
const SPECS = {
  json: { kind: "json", content_bytes: 400, delay_ms: 0 },
  stream: streamOf(50, { together: 50 }),
} as const
export const wrkSpecs: AnswerSpecs = SPECS

const SCENARIOS: readonly { readonly kind: Kind; readonly connections: number }[] = [
  { kind: "json", connections: 1 },
  { kind: "json", connections: 32 },
  { kind: "json", connections: 128 },
  { kind: "stream", connections: 32 },
  { kind: "stream", connections: 128 },
]
const TARGETS: readonly TargetName[] = ["bare", "tollgate"]
const WARM_S = 1
/** CPU is read this long after wrk has started, and this long before it ends. */
const EDGE_MS = 300
const CREDIT = "100000000"
const SETTLED_MS = 10_000
const POLL_MS = 50

/** Throws when a name is that of no scenario. */
function chosen(only: readonly string[]): typeof SCENARIOS {
  const names = SCENARIOS.map(nameOf)
  const unknown = only.find((name) => !names.includes(name))
  if (unknown !== undefined) throw new Error(`--only: expected one of ${names.join(", ")}`)
  return only.length === 0 ? SCENARIOS : SCENARIOS.filter((scenario) => only.includes(nameOf(scenario)))
}

function nameOf({ kind, connections }: (typeof SCENARIOS)[number]): string {
  return `${kind}-${connections}`
}

export function wrkSteps({ rounds, only }: WrkOptions): number {
  return chosen(only).length * (rounds + 1) * TARGETS.length
}

/** Loads bare and Tollgate with `wrk`, in interleaved rounds, and audits the ledger at the end. */
export class WrkRun {
  readonly #rig: Rig
  readonly #progress: Progress
  readonly #options: WrkOptions
  readonly #folder = mkdtempSync(join(tmpdir(), "tollgate-bench-wrk-"))
  #wrk: Subprocess | null = null

  constructor(rig: Rig, progress: Progress, options: WrkOptions) {
    this.#rig = rig
    this.#progress = progress
    this.#options = options
  }

  async run(): Promise<WrkResults> {
    const started = new Date()
    const { accounts, rounds, seconds, only } = this.#options
    const clean = () => {
      this.#wrk?.kill()
      rmSync(this.#folder, { recursive: true, force: true })
    }
    // A signal ends this process without coming back here.
    process.once("exit", clean)
    try {
      const scripts = await this.#writeScripts()
      const done: WrkScenarioResult[] = []
      for (const { kind, connections } of chosen(only))
        done.push(await this.#scenario(kind, connections, scripts))
      return {
        kind: "wrk",
        ...runFacts(started),
        accounts,
        rounds,
        command: `wrk -t1 -cCONNECTIONS -d${seconds}s --latency -s SCRIPT URL`,
        scenarios: done,
        faults: await this.#audit(),
      }
    } finally {
      process.off("exit", clean)
      clean()
    }
  }

  async #scenario(kind: Kind, connections: number, scripts: Readonly<Record<Kind, string>>) {
    const { rounds, seconds } = this.#options
    const title = `${kind === "json" ? "JSON" : "streams of 50 events in one write"}, ${connections} ${connections === 1 ? "connection" : "connections"}`
    const measure = (target: TargetName, words: string, for_s: number) => {
      this.#progress.step(`${title}: ${words}, ${target}`)
      return this.#measure(target, kind, connections, scripts[kind], for_s)
    }
    for (const target of TARGETS) await measure(target, "warm-up", WARM_S)
    const bare: WrkTargetResult[] = []
    const tollgate: WrkTargetResult[] = []
    for (let round = 1; round <= rounds; round++) {
      bare.push(await measure("bare", `round ${round}`, seconds))
      tollgate.push(await measure("tollgate", `round ${round}`, seconds))
    }
    return {
      name: nameOf({ kind, connections }),
      title,
      ratio: spread(tollgate.map(({ calls_per_s }, at) => calls_per_s / (bare[at]?.calls_per_s ?? 0))),
      bare: medians(bare),
      tollgate: medians(tollgate),
    }
  }

  async #measure(target: TargetName, kind: Kind, connections: number, script: string, for_s: number) {
    const { port, pid, postgres_pid } = this.#rig.target(target)
    const path = `${target === "tollgate" ? "" : pathOf(kind)}/v1/chat/completions`
    const url = `http://127.0.0.1:${port}${path}`
    const wrk = Bun.spawn(["wrk", "-t1", `-c${connections}`, `-d${for_s}s`, "--latency", "-s", script, url], {
      stdio: ["ignore", "pipe", "inherit"],
    })
    this.#wrk = wrk
    const processes = { pid, postgres_pid, load_pid: wrk.pid }
    await Bun.sleep(EDGE_MS)
    const before = cpuTimes(processes)
    const started_ms = performance.now()
    await Bun.sleep(for_s * 1000 - 2 * EDGE_MS)
    const used = spent(before, cpuTimes(processes))
    const measured_s = (performance.now() - started_ms) / 1000
    const output = parseWrk(await new Response(wrk.stdout).text())
    return costOf(output, used, measured_s)
  }

  /** One script for each kind; calls go over the accounts in turn. */
  async #writeScripts(): Promise<Record<Kind, string>> {
    const keys: string[] = []
    for (let number = 1; number <= this.#options.accounts; number++) {
      keys.push((await this.#rig.admin.payer(`wrk ${number}`, CREDIT)).key)
    }
    const write = (kind: Kind) => {
      const path = join(this.#folder, `${kind}.lua`)
      const headers = keys.map((key) => requestHeaders(key, SPECS[kind]).authorization ?? "")
      writeFileSync(path, wrkScript(headers, requestBody(kind, SPECS[kind], PROMPT_BYTES)))
      return path
    }
    return { json: write("json"), stream: write("stream") }
  }

  /** The gateway's own audit, once it has settled the calls that wrk left at its end. */
  async #audit(): Promise<string[]> {
    const until = performance.now() + SETTLED_MS
    for (;;) {
      const { violations, open_holds } = await this.#rig.admin.audit()
      if (violations.length > 0) return [`the audit found ${violations.length} violations`]
      if (open_holds === 0) return []
      if (performance.now() > until) return [`${open_holds} holds are still open`]
      await Bun.sleep(POLL_MS)
    }
  }
}

function costOf(
  { calls_per_s, p50_ms, p99_ms }: WrkOutput,
  used: ReturnType<typeof spent>,
  measured_s: number,
): WrkTargetResult {
  const each_us = (ms: number) => (ms * 1000) / (calls_per_s * measured_s)
  return {
    calls_per_s,
    p50_ms,
    p99_ms,
    process_us: each_us(used.target),
    postgres_us: each_us(used.postgres),
    wrk_us: each_us(used.load),
  }
}

function medians(rounds: readonly WrkTargetResult[]): WrkTargetResult {
  const of = (name: keyof WrkTargetResult) => median(rounds.map((round) => round[name]))
  return {
    calls_per_s: of("calls_per_s"),
    p50_ms: of("p50_ms"),
    p99_ms: of("p99_ms"),
    process_us: of("process_us"),
    postgres_us: of("postgres_us"),
    wrk_us: of("wrk_us"),
  }
}

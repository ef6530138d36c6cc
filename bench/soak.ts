import type { Payer } from "./admin.ts"
import { type AnswerSpec, streamOf } from "./answer-spec.ts"
import { Auditor } from "./auditor.ts"
import type { Arrival } from "./job.ts"
import { Latencies, type LatencySummary } from "./latencies.ts"
import { type RunFacts, runFacts } from "./machine.ts"
import type { Progress } from "./progress.ts"
import { requestBody, requestHeaders } from "./prompt.ts"
import type { AnswerSpecs } from "./provider.ts"
import type { AuditResult, FigureResult } from "./results.ts"
import type { Rig } from "./rig.ts"
import { reaches } from "./scenario.ts"
import { median } from "./statistics.ts"

/** The results of a long run: whether anything grows. */
export interface SoakResults extends RunFacts {
  readonly kind: "soak"
  readonly slices: readonly Slice[]
  readonly figures: readonly Flatness[]
  readonly audit: AuditResult
  readonly faults: readonly string[]
}

/** A twentieth of the calls, and the gateway's memory after them. */
export interface Slice {
  readonly calls: number
  /** Streams whose clients disconnected, so far. */
  readonly left: number
  readonly resident_bytes: number
  readonly json_latency_ms: LatencySummary
  readonly time_to_first_token_ms: LatencySummary
}

/** A late value divided by an early one. */
export type Flatness = Pick<FigureResult, "name" | "unit" | "goal" | "reached"> & { readonly value: number }

const SLICES = 20
const CONNECTIONS = 64
/** One call in eleven is a stream whose client disconnects after a few events. */
const CALLS_FOR_ONE_LEFT = 10
const LEAVE_AFTER = 4
const PROMPT_BYTES = 600

const json = { kind: "json", content_bytes: 400, delay_ms: 0 } as const
const whole = streamOf(20)
/** Continues long after its client has disconnected. */
const endless = streamOf(2_000, { per_second: 200 })

export const soakSpecs: AnswerSpecs = { "soak-json": json, "soak-stream": whole, "soak-left": endless }

export const SOAK_STEPS = SLICES

export class Soak {
  readonly #rig: Rig
  readonly #progress: Progress
  readonly #auditor: Auditor

  constructor(rig: Rig, progress: Progress) {
    this.#rig = rig
    this.#progress = progress
    this.#auditor = new Auditor(rig)
  }

  async run(calls: number): Promise<SoakResults> {
    const started = new Date()
    const failures: string[] = []
    const slices: Slice[] = []
    for (let slice = 1; slice <= SLICES; slice++) {
      this.#progress.step(`${Math.round((calls * slice) / SLICES)} calls`)
      slices.push(await this.#slice(slice, Math.round(calls / SLICES), failures))
    }
    const audit = await this.#auditor.close()
    return {
      kind: "soak",
      ...runFacts(started),
      slices,
      figures: flatness(slices),
      audit,
      faults: [...audit.faults, ...failures],
    }
  }

  /** Half JSON, half streams, then the streams whose clients disconnect. */
  async #slice(slice: number, calls: number, failures: string[]): Promise<Slice> {
    const payer = await this.#auditor.payer("soak")
    const leaver = await this.#auditor.payer("soak, left")
    const half = Math.ceil(calls / 2)
    const left = Math.ceil(calls / CALLS_FOR_ONE_LEFT)
    const answers = await this.#load("soak-json", json, payer, half, null)
    const streams = await this.#load("soak-stream", whole, payer, calls - half, null)
    const leaving = await this.#load("soak-left", endless, leaver, left, LEAVE_AFTER)
    for (const { failures: found } of [answers, streams, leaving]) {
      for (const [what, count] of Object.entries(found)) failures.push(`${count} calls failed: ${what}`)
    }
    await this.#auditor.check(payer)
    // The first event that was received is the role, without output.
    await this.#auditor.check(leaver, (LEAVE_AFTER - 1) * endless.content_bytes)
    return {
      calls: slice * calls,
      left: slice * left,
      resident_bytes: leaving.memory?.resident_bytes ?? 0,
      json_latency_ms: Latencies.decode(answers.latency).summary,
      time_to_first_token_ms: Latencies.decode(streams.ttft).summary,
    }
  }

  #load(name: string, spec: AnswerSpec, payer: Payer, calls: number, leave_after: number | null) {
    const { port, pid, postgres_pid } = this.#rig.target("tollgate")
    const arrival: Arrival = { kind: "calls", connections: CONNECTIONS, calls }
    return this.#rig.load({
      origin: { host: "127.0.0.1", port },
      path: "/v1/chat/completions",
      headers: requestHeaders(payer.key, spec),
      body: requestBody(name, spec, PROMPT_BYTES),
      stream: spec.kind === "stream",
      arrival,
      warm_ms: 0,
      leave_after,
      pid,
      postgres_pid,
    })
  }
}

/** The last quarter of the run divided by its second quarter, when everything is warm. */
export function flatness(slices: readonly Slice[]): Flatness[] {
  const quarter = Math.ceil(slices.length / 4)
  const ratio = (value: (slice: Slice) => number) =>
    median(slices.slice(-quarter).map(value)) / median(slices.slice(quarter, 2 * quarter).map(value))
  return [
    flat(
      "resident memory, last quarter / second quarter",
      ratio((slice) => slice.resident_bytes),
      1.2,
    ),
    flat(
      "p99 of JSON calls, last quarter / second quarter",
      ratio((slice) => slice.json_latency_ms.p99),
      1.5,
    ),
    flat(
      "p99 TTFT, last quarter / second quarter",
      ratio((slice) => slice.time_to_first_token_ms.p99),
      1.5,
    ),
  ]
}

function flat(name: string, value: number, at_most: number): Flatness {
  const goal = { at_most }
  return { name, unit: "times", goal, value, reached: reaches(value, goal) }
}

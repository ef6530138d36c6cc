import type { AnswerSpec } from "./answer-spec.ts"
import type { Arrival } from "./job.ts"
import { Latencies } from "./latencies.ts"
import type { CpuTimes } from "./process-status.ts"
import type { CpuResult, PairsResult, ScenarioResult, TargetResult } from "./results.ts"
import type { TargetName } from "./rig.ts"
import type {
  Figure,
  HttpRound,
  HttpScenario,
  LedgerRound,
  LedgerScenario,
  Measured,
  Pairs,
  ShardsRound,
  ShardsScenario,
  Size,
  WorkersRound,
  WorkersScenario,
} from "./scenario.ts"
import { reaches } from "./scenario.ts"
import { spread } from "./statistics.ts"

export function httpResult(scenario: HttpScenario, size: Size, rounds: readonly HttpRound[]): ScenarioResult {
  const { name, title, figures, reference } = scenario
  const arrival = scenario.arrival(size)
  const result = (target: TargetName) => targetResult(rounds.map((round) => round[target]))
  const times = rounds.flatMap(({ reference_ms }) => reference_ms ?? [])
  return {
    name,
    title,
    load: `${wordsOfArrival(arrival)}, ${wordsOfSpec(scenario.spec(size))}`,
    rounds: rounds.length,
    figures: figures.map((figure) => figureResult(figure, rounds)),
    targets: {
      direct: result("direct"),
      bare: result("bare"),
      tollgate: result("tollgate"),
    },
    pairs: null,
    reference: reference === null ? null : { name: reference.name, ms: spread(times) },
  }
}

export function ledgerResult(
  { name, title, figures, accounts, in_flight }: Omit<LedgerScenario, "kind">,
  rounds: readonly LedgerRound[],
): ScenarioResult {
  return {
    name,
    title,
    load: `${in_flight} in flight, ${accounts === 1 ? "one account" : `${accounts} accounts`}, no gateway`,
    rounds: rounds.length,
    figures: figures.map((figure) => figureResult(figure, rounds)),
    targets: null,
    pairs: {
      "batch queues": pairsResult(rounds.map(({ batch_queues }) => batch_queues)),
      "one statement per call": pairsResult(rounds.map(({ single }) => single)),
    },
    reference: null,
  }
}

export function shardsResult(
  { name, title, figures, in_flight }: Omit<ShardsScenario, "accounts">,
  accounts: number,
  rounds: readonly ShardsRound[],
): ScenarioResult {
  return {
    name,
    title,
    load: `${accounts} accounts, no gateway`,
    rounds: rounds.length,
    figures: figures.map((figure) => figureResult(figure, rounds)),
    targets: null,
    pairs: {
      [`1 shard, ${in_flight} in flight`]: pairsResult(rounds.map(({ one }) => one)),
      [`2 shards, ${in_flight} in flight`]: pairsResult(rounds.map(({ two }) => two)),
      [`2 shards, ${in_flight * 2} in flight`]: pairsResult(rounds.map(({ two_full }) => two_full)),
    },
    reference: null,
  }
}

export function workersResult(
  scenario: WorkersScenario,
  size: Size,
  rounds: readonly WorkersRound[],
): ScenarioResult {
  const { name, title, figures, workers } = scenario
  return {
    name,
    title,
    load: `${wordsOfArrival(scenario.arrival(size))}, ${wordsOfSpec(scenario.spec(size))}`,
    rounds: rounds.length,
    figures: figures.map((figure) => figureResult(figure, rounds)),
    targets: {
      "1 worker": targetResult(rounds.map(({ one }) => one)),
      [`${workers} workers`]: targetResult(rounds.map(({ several }) => several)),
    },
    pairs: null,
    reference: null,
  }
}

function figureResult<Round>({ name, unit, goal, value }: Figure<Round>, rounds: readonly Round[]) {
  const by_round = rounds.map(value)
  const together = spread(by_round)
  return { name, unit, goal, by_round, ...together, reached: reaches(together.median, goal) }
}

export function targetResult(rounds: readonly Measured[]): TargetResult {
  const over = (value: (measured: Measured) => number) => spread(rounds.map(value))
  const merged = (of: "latency" | "ttft" | "inter_chunk") =>
    Latencies.merged(rounds.map((measured) => measured[of]))
  return {
    request_throughput_per_s: over(({ calls_per_s }) => calls_per_s),
    events_per_s: over(({ events_per_s }) => events_per_s),
    request_latency_ms: merged("latency").summary,
    time_to_first_token_ms: merged("ttft").summary,
    inter_chunk_latency_ms: merged("inter_chunk").summary,
    cpu: cpuResult(rounds),
    failures: summed(rounds.map(({ report }) => report.failures)),
  }
}

function cpuResult(rounds: readonly Measured[]): CpuResult {
  const of = (whose: keyof CpuTimes) => spread(rounds.map(({ cpu_us }) => cpu_us[whose]))
  const sum_ms = (whose: keyof CpuTimes) => rounds.reduce((sum, { report }) => sum + report.cpu_ms[whose], 0)
  const target_ms = sum_ms("target")
  return {
    per: rounds[0]?.cpu_per ?? "call",
    target_us: of("target"),
    postgres_us: of("postgres"),
    load_us: of("load"),
    load_share: target_ms === 0 ? null : sum_ms("load") / target_ms,
  }
}

function pairsResult(rounds: readonly Pairs[]): PairsResult {
  return {
    per_s: spread(rounds.map(({ per_s }) => per_s)),
    process_us: spread(rounds.map(({ process_us }) => process_us)),
    postgres_us: (rounds[0]?.postgres_us ?? []).map((_, at) =>
      spread(rounds.map(({ postgres_us }) => postgres_us[at] ?? 0)),
    ),
  }
}

function summed(counts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const [what, count] of counts.flatMap((each) => Object.entries(each)))
    sums[what] = (sums[what] ?? 0) + count
  return sums
}

/** Describes how calls arrive. */
function wordsOfArrival(arrival: Arrival): string {
  switch (arrival.kind) {
    case "closed":
      return `closed loop, ${arrival.connections} ${arrival.connections === 1 ? "connection" : "connections"}, for ${arrival.duration_ms / 1000} s`
    case "calls":
      return `${arrival.calls} calls, one after another`
    case "held":
      return `${arrival.connections} streams at once, for ${arrival.window_ms / 1000} s`
  }
}

function wordsOfSpec(spec: AnswerSpec): string {
  switch (spec.kind) {
    case "json":
      return `answers of ${spec.content_bytes} bytes of text${spec.delay_ms > 0 ? ` after ${spec.delay_ms} ms` : ""}`
    case "count":
      return "token counts"
    case "stream": {
      const pace = spec.per_second === null ? "as fast as they are taken" : `${spec.per_second} a second`
      return `${spec.events} events of ${spec.content_bytes} bytes of text, ${pace}`
    }
  }
}

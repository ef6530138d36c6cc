import { type Arrival, PERIOD_MS } from "./job.ts"
import { Latencies } from "./latencies.ts"
import type { Recipe } from "./recipe.ts"
import type { FigureResult, ScenarioResult, TargetResult } from "./results.ts"
import type { TargetName } from "./rig.ts"
import type {
  BooksRound,
  BooksScenario,
  Figure,
  HttpRound,
  HttpScenario,
  Measured,
  Size,
  WorkersRound,
  WorkersScenario,
} from "./scenario.ts"
import { reaches } from "./scenario.ts"
import { spread, variation } from "./statistics.ts"

/** What the rounds of a scenario say together. */
export function httpResult(scenario: HttpScenario, size: Size, rounds: readonly HttpRound[]): ScenarioResult {
  const { name, title, figures, yardstick } = scenario
  const arrival = scenario.arrival(size)
  const connections = "connections" in arrival ? arrival.connections : 1
  const result = (target: TargetName) =>
    targetResult(
      rounds.map((round) => round[target]),
      connections,
    )
  const times = rounds.flatMap(({ yardstick_ms }) => yardstick_ms ?? [])
  return {
    name,
    title,
    load: `${wordsOfArrival(arrival)}, ${wordsOfRecipe(scenario.recipe(size))}`,
    rounds: rounds.length,
    figures: figures.map((figure) => figureResult(figure, rounds)),
    targets: {
      direct: result("direct"),
      bare: result("bare"),
      tollgate: result("tollgate"),
    },
    pairs_per_s: null,
    yardstick: yardstick === null ? null : { name: yardstick.name, ms: spread(times) },
    noise: variation(rounds.map(({ direct }) => steadyPart(direct, arrival))),
  }
}

export function booksResult(
  { name, title, figures, accounts, in_flight }: Omit<BooksScenario, "kind">,
  rounds: readonly BooksRound[],
): ScenarioResult {
  return {
    name,
    title,
    load: `${in_flight} in flight, ${accounts === 1 ? "one account" : `${accounts} accounts`}, no gateway`,
    rounds: rounds.length,
    figures: figures.map((figure) => figureResult(figure, rounds)),
    targets: null,
    pairs_per_s: {
      lanes: spread(rounds.map(({ lanes }) => lanes)),
      single: spread(rounds.map(({ single }) => single)),
    },
    yardstick: null,
    noise: variation(rounds.map(({ single }) => single)),
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
    load: `${wordsOfArrival(scenario.arrival(size))}, ${wordsOfRecipe(scenario.recipe(size))}`,
    rounds: rounds.length,
    figures: figures.map((figure) => figureResult(figure, rounds)),
    targets: {
      "1 worker": targetResult(rounds.map(({ one }) => one)),
      [`${workers} workers`]: targetResult(rounds.map(({ several }) => several)),
    },
    pairs_per_s: null,
    yardstick: null,
    noise: null,
  }
}

function figureResult<Round>(
  { name, unit, goal, value }: Figure<Round>,
  rounds: readonly Round[],
): FigureResult {
  const by_round = rounds.map(value)
  const together = spread(by_round)
  return { name, unit, goal, by_round, ...together, reached: reaches(together.median, goal) }
}

export function targetResult(rounds: readonly Measured[], connections = 1): TargetResult {
  const over = (value: (measured: Measured) => number) => spread(rounds.map(value))
  const merged = (of: "latency" | "ttft" | "inter_chunk" | "lateness") =>
    Latencies.merged(rounds.map((measured) => measured[of]))
  const per_second = 1000 / PERIOD_MS
  const latency = merged("latency")
  const ttft = merged("ttft")
  const inter_chunk = merged("inter_chunk")
  return {
    request_throughput_per_s: over(({ calls_per_s }) => calls_per_s),
    goodput_per_s: over(({ good_per_s }) => good_per_s),
    events_per_s: over(({ events_per_s }) => events_per_s),
    output_token_throughput_per_s: over(({ output_tokens_per_s }) => output_tokens_per_s),
    request_latency_ms: latency.summary,
    time_to_first_token_ms: ttft.summary,
    inter_chunk_latency_ms: inter_chunk.summary,
    lateness_ms: merged("lateness").summary,
    cpu_us_per_event: over(({ cpu_us_per_event }) => cpu_us_per_event),
    resident_bytes_per_connection: over(({ bytes_per_connection }) => bytes_per_connection),
    load_cores: over(({ load_cores }) => load_cores),
    failures: summed(rounds.map(({ report }) => report.failures)),
    distributions: {
      request_latency: latency.points,
      time_to_first_token: ttft.points,
      inter_chunk_latency: inter_chunk.points,
    },
    calls_over_time: rounds.flatMap(({ report }) =>
      report.calls_by_period.map((count) => count * per_second),
    ),
    events_over_time: rounds.flatMap(({ report }) =>
      report.events_by_period.map((count) => count * per_second),
    ),
    resident_bytes_per_connection_over_time: memoryOf(rounds.at(-1), connections),
  }
}

function memoryOf(measured: Measured | undefined, connections: number): number[] {
  const process = measured?.report.process
  if (process === undefined || process === null) return []
  return process.resident_by_period.map((bytes) => (bytes - process.resident_before_bytes) / connections)
}

/** What should be the same in every direct round. */
function steadyPart(direct: Measured, arrival: Arrival): number {
  if (arrival.kind === "held") return direct.inter_chunk.at(0.99)
  const busy = arrival.kind === "closed" && arrival.connections > 1
  return busy ? direct.calls_per_s : direct.latency.at(0.5)
}

function summed(counts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const [what, count] of counts.flatMap((each) => Object.entries(each)))
    sums[what] = (sums[what] ?? 0) + count
  return sums
}

/** How calls arrive, in words. */
export function wordsOfArrival(arrival: Arrival): string {
  switch (arrival.kind) {
    case "closed":
      return `closed loop, ${arrival.connections} ${arrival.connections === 1 ? "connection" : "connections"}, for ${arrival.duration_ms / 1000} s`
    case "calls":
      return `${arrival.calls} calls, one after another`
    case "open":
      return `open loop, ${arrival.per_second} calls/s, for ${arrival.duration_ms / 1000} s`
    case "held":
      return `${arrival.connections} streams at once, for ${arrival.window_ms / 1000} s`
  }
}

function wordsOfRecipe(recipe: Recipe): string {
  switch (recipe.kind) {
    case "json":
      return `answers of ${recipe.content_bytes} bytes of text${recipe.delay_ms > 0 ? ` after ${recipe.delay_ms} ms` : ""}`
    case "count":
      return "token counts"
    case "stream": {
      const pace = recipe.per_second === null ? "as fast as they are taken" : `${recipe.per_second} a second`
      return `${recipe.events} events of ${recipe.content_bytes} bytes of text, ${pace}`
    }
  }
}

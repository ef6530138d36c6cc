import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client"
import type { Upstream } from "./config/config.ts"
import type { Closing, Hold } from "./ledger/reservation.ts"

/** What one process counts: a registry of its own, so that several applications may live in one process. */
export type Metrics = ReturnType<typeof createMetrics>

/** The calls that hold money now. */
export interface OpenCalls {
  readonly count: number
  readonly held_nano: bigint
}

/** In the buckets of OpenTelemetry's GenAI vocabulary, whose names the `gen_ai_` metrics have. */
const DURATION_S = Array.from({ length: 14 }, (_, power) => 0.01 * 2 ** power)
const FIRST_TOKEN_S = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power)
/** For what the gateway itself does: from 125 microseconds to 4 seconds. */
const OWN_S = Array.from({ length: 16 }, (_, power) => 0.000125 * 2 ** power)
const BATCH = [1, 2, 4, 8, 16, 32, 64, 128, 256]

/** So many events are counted in one go, unless somebody looks before. */
const AT_ONCE = 256

/** How often the event loop's lag is sampled; prom-client's 10 ms would wake an idle process a hundred times a second. */
const LAG_SAMPLE_MS = 50
/** Prom-client's own that Bun cannot tell: they would stand at 0, or at nonsense when nothing was sampled between two scrapes. */
const UNTOLD = [
  "nodejs_eventloop_lag_min_seconds",
  "nodejs_eventloop_lag_mean_seconds",
  "nodejs_eventloop_lag_stddev_seconds",
  "nodejs_active_resources",
  "nodejs_active_resources_total",
  "nodejs_active_handles",
  "nodejs_active_handles_total",
  "nodejs_active_requests",
  "nodejs_active_requests_total",
  "nodejs_heap_space_size_total_bytes",
  "nodejs_heap_space_size_used_bytes",
  "nodejs_heap_space_size_available_bytes",
  "nodejs_gc_duration_seconds",
]

/**
 * With a `worker`, every series is labelled with its number: series of different processes are never added up here, where the
 * end of one would look like a counter that was reset.
 *
 * Labels are bounded: routes are patterns, models and upstreams names of the configuration, the rest words of the code. Never a
 * key, an account or anything else a client says.
 */
export function createMetrics(worker?: number) {
  const registry = new Registry()
  if (worker !== undefined) registry.setDefaultLabels({ worker: String(worker) })
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LAG_SAMPLE_MS })
  for (const name of UNTOLD) registry.removeSingleMetric(name)
  const { later, count } = countingLater()
  return {
    ...requestMetrics(registry, later),
    ...callMetrics(registry, later),
    ...booksMetrics(registry),
    content_type: registry.contentType,
    /** All of it in Prometheus' text format. */
    print(): Promise<string> {
      count()
      return registry.metrics()
    },
  }
}

type Later = <Event extends unknown[]>(counting: (...event: Event) => void) => (...event: Event) => void

/**
 * Events are noted and counted many at a time: one by one, between other things to do, the dozen counters of a call took 30 of the
 * 190 us that it costs this process.
 */
function countingLater(): { later: Later; count(): void } {
  let noted: (() => void)[] = []
  const count = () => {
    const counted = noted
    noted = []
    for (const each of counted) each()
  }
  return {
    later:
      (counting) =>
      (...event) => {
        if (noted.push(() => counting(...event)) >= AT_ONCE) count()
      },
    count,
  }
}

/** What came in and what was asked of the providers. */
function requestMetrics(registry: Registry, later: Later) {
  const registers = [registry]
  const requests = new Counter({
    name: "tollgate_requests_total",
    help: "Requests answered, by route and status.",
    labelNames: ["route", "status"],
    registers,
  })
  const attempts = new Histogram({
    name: "tollgate_upstream_attempt_seconds",
    help: "Attempts at a provider until its headers or the lack of them, by upstream and outcome.",
    labelNames: ["upstream", "outcome"],
    buckets: DURATION_S,
    registers,
  })
  const counts = new Counter({
    name: "tollgate_token_counts_total",
    help: "Token counts answered, by model.",
    labelNames: ["model"],
    registers,
  })
  const keepalives = new Counter({
    name: "tollgate_keepalives_total",
    help: "Keepalive comments sent into silent streams.",
    registers,
  })
  const added = new Histogram({
    name: "tollgate_added_latency_seconds",
    help: "What the gateway adds to a call, by where: before the provider is asked, or before the last byte leaves.",
    labelNames: ["where"],
    buckets: OWN_S,
    registers,
  })
  return {
    /** A request was answered. `route` is the pattern of its route, never its path. */
    answered: later((route: string, status: number) => requests.inc({ route, status })),
    /** An attempt at an upstream is over as far as its headers. */
    attempted: later((upstream: Upstream, outcome: number | string, duration_ms: number) =>
      attempts.observe({ upstream: upstream.name, outcome }, duration_ms / 1_000),
    ),
    tokensCounted: later((model: string) => counts.inc({ model })),
    keepalive: (): void => keepalives.inc(),
    /** What the gateway added to a call before the upstream was asked, or before the answer's last byte left (D32). */
    added: later((where: "before" | "after", duration_ms: number) =>
      added.observe({ where }, duration_ms / 1_000),
    ),
  }
}

/** What became of the calls, and what they cost. */
function callMetrics(registry: Registry, later: Later) {
  const registers = [registry]
  const settled = new Counter({
    name: "tollgate_calls_settled_total",
    help: "Calls charged, by model and what the charge rests on.",
    labelNames: ["model", "basis"],
    registers,
  })
  const released = new Counter({
    name: "tollgate_calls_released_total",
    help: "Calls released without a charge, by model and failure.",
    labelNames: ["model", "failure"],
    registers,
  })
  const ended = new Counter({
    name: "tollgate_calls_ended_total",
    help: "How the providers' answers ended; none when there was no answer.",
    labelNames: ["ending"],
    registers,
  })
  const charged = new Counter({
    name: "tollgate_charged_nano_usd_total",
    help: "Money charged, in billionths of a USD, by model.",
    labelNames: ["model"],
    registers,
  })
  const overage = new Counter({
    name: "tollgate_overage_nano_usd_total",
    help: "Money charged above what was held, in billionths of a USD, by model.",
    labelNames: ["model"],
    registers,
  })
  const tokens = new Counter({
    name: "tollgate_tokens_total",
    help: "Tokens charged, by model and kind: prompt (cached ones included), cached, completion.",
    labelNames: ["model", "kind"],
    registers,
  })
  const genAi = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"] as const
  const duration = new Histogram({
    name: "gen_ai_client_operation_duration_seconds",
    help: "Calls from admission to settlement; error_type is the failure, if any.",
    labelNames: [...genAi, "error_type"],
    buckets: DURATION_S,
    registers,
  })
  const usage = new Histogram({
    name: "gen_ai_client_token_usage",
    help: "Tokens charged per call.",
    labelNames: [...genAi, "gen_ai_token_type"],
    buckets: TOKENS,
    registers,
  })
  const first_token = new Histogram({
    name: "gen_ai_server_time_to_first_token_seconds",
    help: "From admission to the first output, for calls that had some.",
    labelNames: genAi,
    buckets: FIRST_TOKEN_S,
    registers,
  })
  return {
    /** A call took its exit (D13). */
    settled: later(({ model, upstream, amount_nano }: Hold, closing: Closing) => {
      const { outcome, basis, failure, ending, charge_nano } = closing
      if (outcome === "settled") settled.inc({ model, basis })
      else released.inc({ model, failure: failure ?? "none" })
      ended.inc({ ending: ending ?? "none" })
      charged.inc({ model }, Number(charge_nano))
      if (charge_nano > amount_nano) overage.inc({ model }, Number(charge_nano - amount_nano))
      const labels = {
        gen_ai_operation_name: "chat",
        gen_ai_provider_name: closing.upstream ?? upstream,
        gen_ai_request_model: model,
      }
      duration.observe(
        failure === null ? labels : { ...labels, error_type: failure },
        closing.duration_ms / 1_000,
      )
      if (closing.ttft_ms !== null) first_token.observe(labels, closing.ttft_ms / 1_000)
      if (closing.usage === null) return
      const { prompt_tokens, cached_tokens, completion_tokens } = closing.usage
      usage.observe({ ...labels, gen_ai_token_type: "input" }, prompt_tokens)
      usage.observe({ ...labels, gen_ai_token_type: "output" }, completion_tokens)
      tokens.inc({ model, kind: "prompt" }, prompt_tokens)
      tokens.inc({ model, kind: "cached" }, cached_tokens)
      tokens.inc({ model, kind: "completion" }, completion_tokens)
    }),
    /** Where the number of open calls and what they hold is read whenever the metrics are. */
    watchCalls(read: () => OpenCalls): void {
      new Gauge({
        name: "tollgate_open_reservations",
        help: "Calls of this process that hold money.",
        registers,
        collect() {
          this.set(read().count)
        },
      })
      new Gauge({
        name: "tollgate_held_nano_usd",
        help: "Money held by the open calls of this process, in billionths of a USD.",
        registers,
        collect() {
          this.set(Number(read().held_nano))
        },
      })
    },
  }
}

/** How the books do. */
function booksMetrics(registry: Registry) {
  const registers = [registry]
  const statements = new Histogram({
    name: "tollgate_ledger_statement_seconds",
    help: "Statements of the books, by kind.",
    labelNames: ["kind"],
    buckets: OWN_S,
    registers,
  })
  const batches = new Histogram({
    name: "tollgate_ledger_batch_size",
    help: "Calls that one statement of the books served, by kind.",
    labelNames: ["kind"],
    buckets: BATCH,
    registers,
  })
  const expired = new Counter({
    name: "tollgate_reservations_expired_total",
    help: "Reservations of dead gateways that this process closed.",
    registers,
  })
  const spooled = new Counter({
    name: "tollgate_closings_spooled_total",
    help: "Closings that went to the spool because the books could not be written.",
    registers,
  })
  const ignored = new Counter({
    name: "tollgate_closings_ignored_total",
    help: "Closings of reservations that were closed before: they changed nothing.",
    registers,
  })
  return {
    /** A statement of `kind` (a word of the code) served `size` calls. */
    statement(kind: string, size: number, duration_ms: number): void {
      statements.observe({ kind }, duration_ms / 1_000)
      batches.observe({ kind }, size)
    },
    expired: (count: number): void => expired.inc(count),
    spooled: (): void => spooled.inc(),
    /** A closing changed nothing, for its reservation was closed before (D13). */
    closingIgnored: (): void => ignored.inc(),
    /** Where the depth of the lanes is read whenever the metrics are: what waits for a statement, by its kind. */
    watchLanes(read: () => Readonly<Record<string, number>>): void {
      new Gauge({
        name: "tollgate_ledger_lane_depth",
        help: "Calls that wait for a statement of the books, by its kind.",
        labelNames: ["kind"],
        registers,
        collect() {
          for (const [kind, depth] of Object.entries(read())) this.set({ kind }, depth)
        },
      })
    },
  }
}

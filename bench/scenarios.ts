import { streamOf } from "./answer-spec.ts"
import { requestBody } from "./prompt.ts"
import { bothStatements, holdStatement, jsonTurn } from "./reference.ts"
import { type TargetName, targets } from "./rig.ts"
import type { Figure, Goal, HttpScenario, Measured, PairsScenario, Scenario, Size } from "./scenario.ts"

/** The rows of the table: each has a load, the figures computed from it, and their goals. */

const KIB = 1024
const MIB = 1024 * KIB

/** A short question, and an answer of about a hundred tokens. */
const json = { kind: "json", content_bytes: 400, delay_ms: 0 } as const
const SHORT_PROMPT_BYTES = 600

function closed(connections: number) {
  return ({ measure_ms }: Size) => ({ kind: "closed", connections, duration_ms: measure_ms }) as const
}

/** A quotient of two sides. */
function times<Side extends string>(name: string, goal: Goal, value: Figure<Side>["value"]): Figure<Side> {
  return { name, unit: "times", goal, value }
}

/** Compares Tollgate with the provider itself and the bare pass-through. */
type OfTargets = HttpScenario<TargetName>

const throughput = (at_least: number): Figure<TargetName> =>
  times("throughput, tollgate / bare", { at_least }, (of) => of("tollgate").per_s / of("bare").per_s)

/** The time that the gateway adds, relative to an operation timed alone. */
const added = (what: "latency" | "ttft", beside: string, at_most: number): Figure<TargetName> =>
  times(`added p50 over bare / ${beside}`, { at_most }, (of, reference_ms) => {
    const added_ms = of("tollgate")[what].at(0.5) - of("bare")[what].at(0.5)
    return added_ms / reference_ms
  })

const time: Figure<TargetName> = times(
  "time, tollgate / bare",
  { at_most: 1.5 },
  (of) => of("tollgate").latency.at(0.5) / of("bare").latency.at(0.5),
)

const plain = {
  kind: "http",
  sides: targets.map((target) => ({ name: target, target, workers: null })),
  prompt_bytes: SHORT_PROMPT_BYTES,
  fresh: false,
  reference: null,
} as const

function ofTargets(row: Omit<OfTargets, keyof typeof plain> & Partial<OfTargets>): OfTargets {
  return { ...plain, ...row }
}

const LONG_STREAMS = { connections: 500, per_second: 40 }
const openingMs = ({ name }: Size) => (name === "quick" ? 500 : 1000)
/** Extra time for opening streams on a busy machine. */
const spareMs = ({ name }: Size) => (name === "quick" ? 2000 : 4000)
const windowMs = ({ measure_ms }: Size) => 2 * measure_ms

/** Fewer in a quick run. */
const SLOW_STREAMS = {
  quick: { connections: 500, events: 7, per_second: 2, window_ms: 800 },
  full: { connections: 2000, events: 10, per_second: 1, window_ms: 2000 },
} as const

const IN_FLIGHT = 128

function ofAccounts(accounts: number, at_least: number) {
  const name = "hold and settle pairs per second, batch queues / one statement per call"
  return {
    kind: "pairs",
    accounts: () => accounts,
    sides: [
      { name: "batch queues", shards: 1, how: "batch_queues", in_flight: IN_FLIGHT },
      { name: "one statement per call", shards: 1, how: "single", in_flight: IN_FLIGHT },
    ],
    figures: [
      times(name, { at_least }, (of) => of("batch queues").per_s / of("one statement per call").per_s),
    ],
  } as const satisfies Omit<PairsScenario<"batch queues" | "one statement per call">, "name" | "title">
}

const bigTurn = jsonTurn(requestBody("big-body", json, MIB))

const calls = ({ name }: Size) =>
  ({ kind: "calls", connections: 1, calls: name === "quick" ? 2 : 20 }) as const

const postgresUs = ({ cpu_us }: Measured) => cpu_us.postgres.reduce((sum, each_us) => sum + each_us, 0)

export const scenarios: readonly Scenario[] = [
  ofTargets({
    name: "json-128",
    title: "JSON, 128 connections",
    spec: () => json,
    arrival: closed(128),
    figures: [throughput(0.6)],
  }),
  ofTargets({
    name: "json-1",
    title: "JSON, 1 connection",
    spec: () => json,
    arrival: closed(1),
    reference: bothStatements,
    figures: [added("latency", bothStatements.name, 1.4)],
  }),
  ofTargets({
    name: "stream-50",
    title: "Short streams (50 events), 128 connections",
    spec: () => streamOf(50),
    arrival: closed(128),
    figures: [throughput(0.5)],
  }),
  ofTargets({
    name: "messages-50",
    title: "Short streams of messages (50 deltas), 128 connections",
    spec: () => streamOf(50, { family: "messages" }),
    arrival: closed(128),
    figures: [throughput(0.5)],
  }),
  ofTargets({
    name: "stream-500",
    title: "Long streams, 500 concurrent, 40 events/s each",
    spec: (size) => {
      const { per_second } = LONG_STREAMS
      const seconds = (openingMs(size) + windowMs(size) + spareMs(size)) / 1000
      return streamOf(Math.ceil(seconds * per_second), { per_second })
    },
    arrival: (size) => ({
      kind: "held",
      connections: LONG_STREAMS.connections,
      opened_per_second: (LONG_STREAMS.connections * 1000) / openingMs(size),
      window_ms: windowMs(size),
    }),
    figures: [
      times(
        "gateway CPU per event, tollgate / bare",
        { at_most: 1.35 },
        (of) => of("tollgate").cpu_us.target / of("bare").cpu_us.target,
      ),
      times(
        "p99 inter-event latency, tollgate / bare",
        { at_most: 1.5 },
        (of) => of("tollgate").inter_chunk.at(0.99) / of("bare").inter_chunk.at(0.99),
      ),
    ],
  }),
  ofTargets({
    name: "ttft",
    title: "TTFT of a stream, idle machine",
    spec: () => streamOf(5),
    arrival: closed(1),
    reference: holdStatement,
    figures: [added("ttft", holdStatement.name, 1.6)],
  }),
  ofTargets({
    name: "memory",
    title: "Open slow streams",
    spec: ({ name }) => streamOf(SLOW_STREAMS[name].events, { per_second: SLOW_STREAMS[name].per_second }),
    arrival: ({ name }) => ({
      kind: "held",
      connections: SLOW_STREAMS[name].connections,
      opened_per_second: 1000,
      window_ms: SLOW_STREAMS[name].window_ms,
    }),
    fresh: true,
    figures: [
      {
        name: "resident memory per stream beyond bare's",
        unit: "KiB",
        goal: { at_most: 12 },
        value: (of) => (of("tollgate").bytes_per_connection - of("bare").bytes_per_connection) / KIB,
      },
    ],
  }),
  { name: "hot-account", title: "One hot account, in flight 128", ...ofAccounts(1, 10) },
  { name: "accounts-1000", title: "1,000 accounts, in flight 128", ...ofAccounts(1000, 4) },
  ofTargets({
    name: "count-tokens",
    title: "Count tokens, 64 connections",
    spec: () => ({ kind: "count" }),
    arrival: closed(64),
    figures: [throughput(0.6)],
  }),
  ofTargets({
    name: "big-body",
    title: "Body of 1 MiB, JSON",
    spec: () => json,
    prompt_bytes: MIB,
    arrival: closed(1),
    reference: bigTurn,
    figures: [added("latency", bigTurn.name, 2.5)],
  }),
  ofTargets({
    name: "big-event",
    title: "A stream of one 6 MiB event",
    spec: () => streamOf(1, { content_bytes: 6 * MIB }),
    arrival: calls,
    figures: [time],
  }),
  ofTargets({
    name: "small-events",
    title: "A stream of 100,000 events of 20 bytes",
    spec: () => streamOf(100_000, { content_bytes: 20, together: 500, lean: true }),
    arrival: calls,
    figures: [time],
  }),
  // More connections than one worker can keep busy while each waits for the provider.
  {
    ...plain,
    name: "workers-2",
    title: "Two workers on one port, a provider that answers after 50 ms",
    // Several workers first, so that the next scenario has a gateway with one process.
    sides: [
      { name: "2 workers", target: "tollgate", workers: 2 },
      { name: "1 worker", target: "tollgate", workers: 1 },
    ],
    spec: () => ({ ...json, delay_ms: 50 }),
    arrival: (size) => ({ kind: "closed", connections: 256, duration_ms: windowMs(size) }),
    figures: [times("throughput, 2 workers / 1", null, (of) => of("2 workers").per_s / of("1 worker").per_s)],
  } satisfies HttpScenario<"2 workers" | "1 worker">,
  // Shards have nothing in common: two of them must not cost more for each pair than one.
  {
    kind: "pairs",
    name: "shards",
    title: "Two shards, many accounts",
    accounts: ({ name }) => (name === "quick" ? 100 : 1000),
    sides: [
      { name: "1 shard", shards: 1, how: "batch_queues", in_flight: IN_FLIGHT },
      { name: "2 shards", shards: 2, how: "batch_queues", in_flight: IN_FLIGHT },
      { name: "2 shards, twice in flight", shards: 2, how: "batch_queues", in_flight: 2 * IN_FLIGHT },
    ],
    figures: [
      times(
        "CPU of all Postgres per pair, 2 shards / 1, as many in flight",
        { at_most: 1.1 },
        (of) => postgresUs(of("2 shards")) / postgresUs(of("1 shard")),
      ),
      times(
        "CPU of all Postgres per pair, 2 shards / 1, as many in flight in each",
        { at_most: 1.1 },
        (of) => postgresUs(of("2 shards, twice in flight")) / postgresUs(of("1 shard")),
      ),
      times(
        "CPU of the process per pair, 2 shards / 1, as many in flight in each",
        null,
        (of) => of("2 shards, twice in flight").cpu_us.target / of("1 shard").cpu_us.target,
      ),
      times(
        "pairs per second, 2 shards / 1, as many in flight in each",
        null,
        (of) => of("2 shards, twice in flight").per_s / of("1 shard").per_s,
      ),
    ],
  } satisfies PairsScenario<"1 shard" | "2 shards" | "2 shards, twice in flight">,
]

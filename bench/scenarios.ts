import { streamOf } from "./answer-spec.ts"
import { requestBody } from "./prompt.ts"
import { bothStatements, holdStatement, jsonTurn } from "./reference.ts"
import type {
  Figure,
  HttpRound,
  HttpScenario,
  LedgerRound,
  LedgerScenario,
  Pairs,
  Scenario,
  ShardsScenario,
  Size,
  WorkersScenario,
} from "./scenario.ts"

/** The rows of the table: each has a load, the figures computed from it, and their goals. */

const KIB = 1024
const MIB = 1024 * KIB

/** A short question, and an answer of about a hundred tokens. */
const json = { kind: "json", content_bytes: 400, delay_ms: 0 } as const
const SHORT_PROMPT_BYTES = 600

function closed(connections: number) {
  return ({ measure_ms }: Size) => ({ kind: "closed", connections, duration_ms: measure_ms }) as const
}

const throughput = (at_least: number): Figure<HttpRound> => ({
  name: "throughput, tollgate / bare",
  unit: "times",
  goal: { at_least },
  value: ({ tollgate, bare }) => tollgate.calls_per_s / bare.calls_per_s,
})

/** The time that the gateway adds, relative to an operation timed alone. */
const added = (of: "latency" | "ttft", beside: string, at_most: number): Figure<HttpRound> => ({
  name: `added p50 over bare / ${beside}`,
  unit: "times",
  goal: { at_most },
  value: ({ tollgate, bare, reference_ms }) =>
    (tollgate[of].at(0.5) - bare[of].at(0.5)) / (reference_ms ?? Number.NaN),
})

const time: Figure<HttpRound> = {
  name: "time, tollgate / bare",
  unit: "times",
  goal: { at_most: 1.5 },
  value: ({ tollgate, bare }) => tollgate.latency.at(0.5) / bare.latency.at(0.5),
}

const pairs = (at_least: number): Figure<LedgerRound> => ({
  name: "hold and settle pairs per second, batch queues / one statement per call",
  unit: "times",
  goal: { at_least },
  value: ({ batch_queues, single }) => batch_queues.per_s / single.per_s,
})

const plain = { kind: "http", prompt_bytes: SHORT_PROMPT_BYTES, fresh: false, reference: null } as const

const jsonBusy: HttpScenario = {
  ...plain,
  name: "json-128",
  title: "JSON, 128 connections",
  spec: () => json,
  arrival: closed(128),
  figures: [throughput(0.6)],
}

const jsonSingle: HttpScenario = {
  ...plain,
  name: "json-1",
  title: "JSON, 1 connection",
  spec: () => json,
  arrival: closed(1),
  reference: bothStatements,
  figures: [added("latency", bothStatements.name, 1.4)],
}

const shortStreams: HttpScenario = {
  ...plain,
  name: "stream-50",
  title: "Short streams (50 events), 128 connections",
  spec: () => streamOf(50),
  arrival: closed(128),
  figures: [throughput(0.5)],
}

const messagesStreams: HttpScenario = {
  ...shortStreams,
  name: "messages-50",
  title: "Short streams of messages (50 deltas), 128 connections",
  spec: () => streamOf(50, { family: "messages" }),
}

const LONG_STREAMS = { connections: 500, per_second: 40 }
const openingMs = ({ name }: Size) => (name === "quick" ? 500 : 1000)
/** Extra time for opening streams on a busy machine. */
const spareMs = ({ name }: Size) => (name === "quick" ? 2000 : 4000)
const windowMs = ({ measure_ms }: Size) => 2 * measure_ms
const longStreams: HttpScenario = {
  ...plain,
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
    {
      name: "gateway CPU per event, tollgate / bare",
      unit: "times",
      goal: { at_most: 1.35 },
      value: ({ tollgate, bare }) => tollgate.cpu_us.target / bare.cpu_us.target,
    },
    {
      name: "p99 inter-event latency, tollgate / bare",
      unit: "times",
      goal: { at_most: 1.5 },
      value: ({ tollgate, bare }) => tollgate.inter_chunk.at(0.99) / bare.inter_chunk.at(0.99),
    },
  ],
}

const firstToken: HttpScenario = {
  ...plain,
  name: "ttft",
  title: "TTFT of a stream, idle machine",
  spec: () => streamOf(5),
  arrival: closed(1),
  reference: holdStatement,
  figures: [added("ttft", holdStatement.name, 1.6)],
}

/** Fewer in a quick run. */
const SLOW_STREAMS = {
  quick: { connections: 500, events: 7, per_second: 2, window_ms: 800 },
  full: { connections: 2000, events: 10, per_second: 1, window_ms: 2000 },
} as const

const openStreams: HttpScenario = {
  ...plain,
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
      value: ({ tollgate, bare }) => (tollgate.bytes_per_connection - bare.bytes_per_connection) / KIB,
    },
  ],
}

const hotAccount: LedgerScenario = {
  kind: "ledger",
  name: "hot-account",
  title: "One hot account, in flight 128",
  accounts: 1,
  in_flight: 128,
  figures: [pairs(10)],
}

const manyAccounts: LedgerScenario = {
  ...hotAccount,
  name: "accounts-1000",
  title: "1,000 accounts, in flight 128",
  accounts: 1000,
  figures: [pairs(4)],
}

const countTokens: HttpScenario = {
  ...plain,
  name: "count-tokens",
  title: "Count tokens, 64 connections",
  spec: () => ({ kind: "count" }),
  arrival: closed(64),
  figures: [throughput(0.6)],
}

const bigTurn = jsonTurn(requestBody("big-body", json, MIB))

const bigBody: HttpScenario = {
  ...plain,
  name: "big-body",
  title: "Body of 1 MiB, JSON",
  spec: () => json,
  prompt_bytes: MIB,
  arrival: closed(1),
  reference: bigTurn,
  figures: [added("latency", bigTurn.name, 2.5)],
}

const calls = ({ name }: Size) =>
  ({ kind: "calls", connections: 1, calls: name === "quick" ? 2 : 20 }) as const

const bigEvent: HttpScenario = {
  ...plain,
  name: "big-event",
  title: "A stream of one 6 MiB event",
  spec: () => streamOf(1, { content_bytes: 6 * MIB }),
  arrival: calls,
  figures: [time],
}

const smallEvents: HttpScenario = {
  ...plain,
  name: "small-events",
  title: "A stream of 100,000 events of 20 bytes",
  spec: () => streamOf(100_000, { content_bytes: 20, together: 500, lean: true }),
  arrival: calls,
  figures: [time],
}

/** More connections than one worker can keep busy while each waits for the provider. */
const twoWorkers: WorkersScenario = {
  kind: "workers",
  name: "workers-2",
  title: "Two workers on one port, a provider that answers after 50 ms",
  workers: 2,
  spec: () => ({ ...json, delay_ms: 50 }),
  prompt_bytes: SHORT_PROMPT_BYTES,
  arrival: (size) => ({ kind: "closed", connections: 256, duration_ms: windowMs(size) }),
  figures: [
    {
      name: "throughput, 2 workers / 1",
      unit: "times",
      goal: null,
      value: ({ several, one }) => several.calls_per_s / one.calls_per_s,
    },
  ],
}

const postgresUs = ({ postgres_us }: Pairs) => postgres_us.reduce((sum, each_us) => sum + each_us, 0)

/** Shards have nothing in common: two of them must not cost more for each pair than one. */
const twoShards: ShardsScenario = {
  kind: "shards",
  name: "shards",
  title: "Two shards, many accounts",
  accounts: ({ name }) => (name === "quick" ? 100 : 1000),
  in_flight: 128,
  figures: [
    {
      name: "CPU of all Postgres per pair, 2 shards / 1, as many in flight",
      unit: "times",
      goal: { at_most: 1.1 },
      value: ({ two, one }) => postgresUs(two) / postgresUs(one),
    },
    {
      name: "CPU of all Postgres per pair, 2 shards / 1, as many in flight in each",
      unit: "times",
      goal: { at_most: 1.1 },
      value: ({ two_full, one }) => postgresUs(two_full) / postgresUs(one),
    },
    {
      name: "CPU of the process per pair, 2 shards / 1, as many in flight in each",
      unit: "times",
      goal: null,
      value: ({ two_full, one }) => two_full.process_us / one.process_us,
    },
    {
      name: "pairs per second, 2 shards / 1, as many in flight in each",
      unit: "times",
      goal: null,
      value: ({ two_full, one }) => two_full.per_s / one.per_s,
    },
  ],
}

export const scenarios: readonly Scenario[] = [
  jsonBusy,
  jsonSingle,
  shortStreams,
  messagesStreams,
  longStreams,
  firstToken,
  openStreams,
  hotAccount,
  manyAccounts,
  countTokens,
  bigBody,
  bigEvent,
  smallEvents,
  twoWorkers,
  twoShards,
]

import { parseArgs } from "node:util"
import type { Level } from "./job.ts"

/** The parsed command line. */
export type Command =
  | { readonly kind: "help" }
  | ({
      readonly kind: "suite"
      readonly quick: boolean
      readonly only: readonly string[]
      readonly rounds: number | null
    } & Output)
  | ({ readonly kind: "history"; readonly calls: number } & Output)
  | ({ readonly kind: "soak"; readonly calls: number; readonly past: number } & Output)
  | ({
      readonly kind: "wrk"
      readonly quick: boolean
      readonly only: readonly string[]
      readonly rounds: number | null
      readonly accounts: number
    } & Output)
  | ({ readonly kind: "endpoint" } & Endpoint & Output)

/** Where results are written; null for a new file below `bench-results/`. */
export interface Output {
  readonly json: string | null
  readonly html: string | null
  /** Whether to write CPU profiles of the gateway. */
  readonly profile: boolean
}

/** A load on any OpenAI-compatible endpoint. */
export interface Endpoint {
  readonly url: URL
  readonly key: string
  readonly model: string
  readonly stream: boolean
  /** Calls per second of an open load; null for a closed one. */
  readonly rate: number | null
  readonly concurrency: number
  readonly duration_ms: number
  readonly prompt_bytes: number
  readonly max_tokens: number
  readonly level: Level
}

export const USAGE = `bun run bench                    every scenario, side by side: the provider alone, a bare pass-through, Tollgate
  --quick                        all of it in under two minutes, as a smoke test
  --only NAME                    only this scenario; may be given several times
  --rounds N                     instead of 5, or 2 with --quick
  --profile                      keep CPU profiles of the gateway, one for each scenario

bun run bench --soak             memory and latency over 200,000 calls, statements over 2 million past calls
  --calls N --past N             instead of those numbers

bun run bench --history          sizes, questions, seals and audits of 20 million past calls
  --calls N                      instead of that number; 1 KB of disk for each

bun run bench --wrk              JSON calls and short streams under wrk, which must be installed (apt-get install wrk)
  --accounts N                   calls go over N accounts in turn (1)
  --only NAME                    json-1, json-32, json-128, stream-32 or stream-128
  --rounds N                     instead of 3, or 1 with --quick

bun run bench --url URL --key KEY --model NAME      any OpenAI-compatible endpoint
  --stream                       streamed answers
  --rate R | --concurrency C     calls per second, or at once (1)
  --duration 10s                 how long
  --prompt-bytes N               of each request (600)
  --max-tokens N                 of each answer (256)
  --goodput "ttft:200 latency:2000 inter_chunk:50"   what counts as goodput, in milliseconds

  --json FILE --html FILE        where to write the results, instead of bench-results/`

const options = {
  help: { type: "boolean", short: "h", default: false },
  quick: { type: "boolean", default: false },
  only: { type: "string", multiple: true },
  rounds: { type: "string" },
  profile: { type: "boolean", default: false },
  soak: { type: "boolean", default: false },
  history: { type: "boolean", default: false },
  calls: { type: "string" },
  past: { type: "string", default: "2000000" },
  wrk: { type: "boolean", default: false },
  accounts: { type: "string", default: "1" },
  url: { type: "string" },
  key: { type: "string" },
  model: { type: "string" },
  stream: { type: "boolean", default: false },
  rate: { type: "string" },
  concurrency: { type: "string" },
  duration: { type: "string", default: "10s" },
  "prompt-bytes": { type: "string", default: "600" },
  "max-tokens": { type: "string", default: "256" },
  goodput: { type: "string", default: "" },
  json: { type: "string" },
  html: { type: "string" },
} as const

/** Parses the arguments; throws a sentence for the user. */
export function readCommand(args: readonly string[]): Command {
  const { values } = parseArgs({ args: [...args], options, strict: true, allowPositionals: false })
  const output = { json: values.json ?? null, html: values.html ?? null, profile: values.profile }
  if (values.help) return { kind: "help" }
  if (values.url !== undefined) return { kind: "endpoint", ...endpointOf(values.url, values), ...output }
  if (values.history)
    return { kind: "history", calls: count("--calls", values.calls ?? "20000000"), ...output }
  if (values.soak) {
    return {
      kind: "soak",
      calls: count("--calls", values.calls ?? "200000"),
      past: count("--past", values.past),
      ...output,
    }
  }
  const rounds = values.rounds === undefined ? null : count("--rounds", values.rounds)
  if (values.wrk) {
    return {
      kind: "wrk",
      quick: values.quick,
      only: values.only ?? [],
      rounds,
      accounts: count("--accounts", values.accounts),
      ...output,
    }
  }
  return { kind: "suite", quick: values.quick, only: values.only ?? [], rounds, ...output }
}

type Values = ReturnType<typeof parseArgs<{ options: typeof options }>>["values"]

function endpointOf(address: string, values: Values): Endpoint {
  const { key, model, rate, concurrency, duration = "", goodput = "" } = values
  if (!URL.canParse(address))
    throw new Error("--url: expected the address of an endpoint, such as http://127.0.0.1:8080/v1")
  const url = new URL(address)
  if (!["http:", "https:"].includes(url.protocol)) throw new Error("--url: expected http or https")
  if (key === undefined || model === undefined) throw new Error("--url needs --key and --model")
  if (rate !== undefined && concurrency !== undefined) throw new Error("either --rate or --concurrency")
  return {
    url,
    key,
    model,
    stream: values.stream === true,
    rate: rate === undefined ? null : positive("--rate", rate),
    concurrency: count("--concurrency", concurrency ?? "1"),
    duration_ms: durationMs(duration),
    prompt_bytes: count("--prompt-bytes", values["prompt-bytes"] ?? ""),
    max_tokens: count("--max-tokens", values["max-tokens"] ?? ""),
    level: levelOf(goodput),
  }
}

const LEVELS = { ttft: "ttft_ms", latency: "latency_ms", inter_chunk: "inter_chunk_ms" } as const

/** `ttft:200 latency:2000 inter_chunk:50`, any of them, in milliseconds. */
function levelOf(text: string): Level {
  const level: Level = {}
  for (const part of text.split(/\s+/).filter((word) => word !== "")) {
    const [name = "", ms = ""] = part.split(":")
    if (name !== "ttft" && name !== "latency" && name !== "inter_chunk") {
      throw new Error(
        '--goodput: expected "ttft:200 latency:2000 inter_chunk:50", any of them, in milliseconds',
      )
    }
    level[LEVELS[name]] = positive("--goodput", ms)
  }
  return level
}

const UNITS_MS = { ms: 1, s: 1000, m: 60_000 } as const

function durationMs(text: string): number {
  const [, number = "", unit] = /^(\d{1,6})(ms|s|m)$/.exec(text) ?? []
  if (unit !== "ms" && unit !== "s" && unit !== "m")
    throw new Error("--duration: expected a time such as 10s or 2m")
  return Number(number) * UNITS_MS[unit]
}

function count(option: string, text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new Error(`${option}: expected a whole number above 0`)
  return Number(text)
}

function positive(option: string, text: string): number {
  if (!/^\d{1,9}(?:\.\d{1,6})?$/.test(text) || Number(text) === 0)
    throw new Error(`${option}: expected a number above 0`)
  return Number(text)
}

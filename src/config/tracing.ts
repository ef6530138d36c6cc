import { type Static, Type } from "@sinclair/typebox"
import type { Fault } from "../wire/fault.ts"
import { ConfigError } from "./config.ts"
import { type FaultReport, type Sources, secretIn, withoutSlashes } from "./values.ts"

/** The trace settings (D54), from the OpenTelemetry environment variables. */
export const Tracing = Type.Object({
  /** The URL that spans are sent to. */
  endpoint: Type.String(),
  /** Headers of each export request; some are secret. */
  headers: Type.Record(Type.String(), Type.String()),
  gzip: Type.Boolean(),
  /** The timeout of an export request. */
  timeout_ms: Type.Integer(),
  /** Resource attributes: `service.name` and others. */
  resource: Type.Record(Type.String(), Type.String()),
  /** The share of traces to record, and whether the sampling decision of the client counts. */
  sampler: Type.Object({ parent_based: Type.Boolean(), ratio: Type.Number() }),
  /** The maximum number of queued spans; more are dropped. */
  queue_spans: Type.Integer(),
  /** The maximum number of spans per request, and the maximum delay of a span. */
  batch_spans: Type.Integer(),
  delay_ms: Type.Integer(),
})
export type Tracing = Static<typeof Tracing>

const SAMPLERS: Readonly<Record<string, (ratio: number) => Tracing["sampler"]>> = {
  always_on: () => ({ parent_based: false, ratio: 1 }),
  always_off: () => ({ parent_based: false, ratio: 0 }),
  traceidratio: (ratio) => ({ parent_based: false, ratio }),
  parentbased_always_on: () => ({ parent_based: true, ratio: 1 }),
  parentbased_always_off: () => ({ parent_based: true, ratio: 0 }),
  parentbased_traceidratio: (ratio) => ({ parent_based: true, ratio }),
}

/**
 * Null if no endpoint is set or tracing is switched off. Throws a `ConfigError` that lists every invalid variable without its value.
 * `OTEL_EXPORTER_OTLP_HEADERS_FILE` can name a file with the headers, as for all secrets (D39).
 */
export function readTracing(sources: Sources): Tracing | null {
  const { env } = sources
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === "true" || env.OTEL_TRACES_EXPORTER === "none") return null
  const faults: Fault[] = []
  const read = new Variables(sources, (path, expected) => void faults.push({ path, expected }))
  const endpoint = read.endpoint()
  if (endpoint === null && faults.length === 0) return null
  read.oneOf("OTEL_TRACES_EXPORTER", ["otlp"])
  read.oneOf(read.specific("PROTOCOL"), ["http/json"])
  const sampler = read.oneOf("OTEL_TRACES_SAMPLER", Object.keys(SAMPLERS)) ?? "parentbased_always_on"
  const isRatio = (text: string) => /^(?:0|1|[01]?\.\d{1,9})$/.test(text) && Number(text) <= 1
  const ratio = Number(read.text("OTEL_TRACES_SAMPLER_ARG", isRatio, "a number from 0 to 1") ?? 1)
  const queue_spans = read.integer("OTEL_BSP_MAX_QUEUE_SIZE", 2_048)
  const tracing: Tracing = {
    endpoint: endpoint ?? "",
    headers: {
      ...read.headers("OTEL_EXPORTER_OTLP_HEADERS"),
      ...read.headers("OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
    },
    gzip: read.oneOf(read.specific("COMPRESSION"), ["none", "gzip"]) === "gzip",
    timeout_ms: read.integer(read.specific("TIMEOUT"), 10_000),
    resource: read.resource(),
    sampler: SAMPLERS[sampler]?.(ratio) ?? { parent_based: true, ratio: 1 },
    queue_spans,
    batch_spans: Math.min(queue_spans, read.integer("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)),
    delay_ms: read.integer("OTEL_BSP_SCHEDULE_DELAY", 5_000),
  }
  if (faults.length > 0) throw new ConfigError(faults)
  return tracing
}

/** Reads variables and reports their errors. An empty variable counts as unset. */
class Variables {
  readonly #sources: Sources
  readonly #report: FaultReport

  constructor(sources: Sources, report: FaultReport) {
    this.#sources = sources
    this.#report = report
  }

  /** The text of a variable; null if it is unset or not as expected. */
  text(name: string, fits: (text: string) => boolean = () => true, expected = ""): string | null {
    const { env } = this.#sources
    const text = (Object.hasOwn(env, name) && env[name]) || null
    if (text === null || fits(text)) return text
    this.#report(name, expected)
    return null
  }

  /** The name of the traces-specific variable if it is set, otherwise of the general one. */
  specific(what: string): string {
    const name = `OTEL_EXPORTER_OTLP_TRACES_${what}`
    return this.text(name) === null ? `OTEL_EXPORTER_OTLP_${what}` : name
  }

  /** The traces-specific variable is a full URL. The general one is a base URL, to which `/v1/traces` is added. */
  endpoint(): string | null {
    const name = this.specific("ENDPOINT")
    const isUrl = (text: string) => /^https?:\/\/[^\s/]+/i.test(text) && URL.canParse(text)
    const text = this.text(name, isUrl, "an address such as http://127.0.0.1:4318")
    if (text === null || name.includes("TRACES")) return text
    return `${withoutSlashes(text)}/v1/traces`
  }

  oneOf(name: string, words: readonly string[]): string | null {
    const expected = words.length === 1 ? `${words[0]}, or to be unset` : `one of ${words.join(", ")}`
    return this.text(name, (text) => words.includes(text), expected)
  }

  integer(name: string, otherwise: number): number {
    const isCount = (text: string) => /^[1-9]\d{0,8}$/.test(text)
    return Number(this.text(name, isCount, "an integer from 1 to 999999999") ?? otherwise)
  }

  headers(name: string): Record<string, string> {
    const pairs = pairsOf(secretIn(name, this.#sources, this.#report) ?? "")
    const valid = pairs?.every(
      ([key, value]) => /^[\w!#$%&'*+.^`|~-]+$/.test(key) && /^[\x20-\x7e]*$/.test(value),
    )
    if (pairs !== null && valid) return Object.fromEntries(pairs)
    this.#report(name, "headers such as api-key=secret,tenant=acme")
    return {}
  }

  resource(): Record<string, string> {
    const name = "OTEL_RESOURCE_ATTRIBUTES"
    const pairs = pairsOf(this.text(name) ?? "")
    if (pairs === null)
      this.#report(name, "attributes such as deployment.environment.name=production,team=acme")
    const said = Object.fromEntries(pairs ?? [])
    const service = this.text("OTEL_SERVICE_NAME") ?? said["service.name"] ?? "tollgate"
    return { ...said, "service.name": service }
  }
}

/** Parses `a=b,c=d`, percent-decoded; null if malformed. */
function pairsOf(text: string): [key: string, value: string][] | null {
  try {
    return text
      .split(",")
      .filter((pair) => pair.trim() !== "")
      .map((pair) => {
        const at = pair.indexOf("=")
        const key = pair.slice(0, at).trim()
        if (at < 1 || key === "") throw new Error("no pair")
        return [key, decodeURIComponent(pair.slice(at + 1).trim())]
      })
  } catch {
    return null
  }
}

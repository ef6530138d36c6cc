import { type Static, Type } from "@sinclair/typebox"
import type { Fault } from "../wire/fault.ts"
import { ConfigError } from "./config.ts"
import { readVariable, type Sources, withoutSlashes } from "./values.ts"

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
  const read = new Variables(sources, faults)
  const endpoint = read.endpoint()
  if (endpoint === null && faults.length === 0) return null
  read.oneOf("OTEL_TRACES_EXPORTER", ["otlp"])
  read.oneOf(read.specific("PROTOCOL"), ["http/json"])
  const sampler = read.oneOf("OTEL_TRACES_SAMPLER", Object.keys(SAMPLERS)) ?? "parentbased_always_on"
  const ratio = read.ratio("OTEL_TRACES_SAMPLER_ARG")
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

/** Reads variables and collects their errors. An empty variable counts as unset. */
class Variables {
  readonly #sources: Sources
  readonly #faults: Fault[]

  constructor(sources: Sources, faults: Fault[]) {
    this.#sources = sources
    this.#faults = faults
  }

  /** The name of the traces-specific variable if it is set, otherwise of the general one. */
  specific(what: string): string {
    const name = `OTEL_EXPORTER_OTLP_TRACES_${what}`
    return this.#text(name) === null ? `OTEL_EXPORTER_OTLP_${what}` : name
  }

  /** The traces-specific variable is a full URL. The general one is a base URL, to which `/v1/traces` is added. */
  endpoint(): string | null {
    const name = this.specific("ENDPOINT")
    const text = this.#text(name)
    if (text === null) return null
    if (!/^https?:\/\/[^\s/]+/i.test(text) || !URL.canParse(text)) {
      return this.#refuse(name, "an address such as http://127.0.0.1:4318")
    }
    return name.includes("TRACES") ? text : `${withoutSlashes(text)}/v1/traces`
  }

  oneOf(name: string, words: readonly string[]): string | null {
    const text = this.#text(name)
    if (text === null || words.includes(text)) return text
    return this.#refuse(
      name,
      words.length === 1 ? `${words[0]}, or to be unset` : `one of ${words.join(", ")}`,
    )
  }

  integer(name: string, otherwise: number): number {
    const text = this.#text(name)
    if (text === null) return otherwise
    if (!/^[1-9]\d{0,8}$/.test(text)) this.#refuse(name, "an integer from 1 to 999999999")
    return Number(text)
  }

  ratio(name: string): number {
    const text = this.#text(name)
    if (text === null) return 1
    if (!/^(?:0|1|[01]?\.\d{1,9})$/.test(text) || Number(text) > 1) this.#refuse(name, "a number from 0 to 1")
    return Number(text)
  }

  headers(name: string): Record<string, string> {
    const variable = readVariable(name, this.#sources)
    if (variable.state === "unset") return {}
    if (variable.state === "set twice") this.#refuse(name, `to be unset when ${name}_FILE is set`)
    if (variable.state === "unreadable") {
      this.#refuse(`${name}_FILE`, "the path of a readable, non-empty file")
    }
    if (variable.state !== "set") return {}
    const pairs = pairsOf(variable.text)
    const valid = pairs?.every(
      ([key, value]) => /^[\w!#$%&'*+.^`|~-]+$/.test(key) && /^[\x20-\x7e]*$/.test(value),
    )
    if (pairs !== null && valid) return Object.fromEntries(pairs)
    this.#refuse(name, "headers such as api-key=secret,tenant=acme")
    return {}
  }

  resource(): Record<string, string> {
    const name = "OTEL_RESOURCE_ATTRIBUTES"
    const pairs = pairsOf(this.#text(name) ?? "")
    if (pairs === null)
      this.#refuse(name, "attributes such as deployment.environment.name=production,team=acme")
    const said = Object.fromEntries(pairs ?? [])
    const service = this.#text("OTEL_SERVICE_NAME") ?? said["service.name"] ?? "tollgate"
    return { ...said, "service.name": service }
  }

  #text(name: string): string | null {
    const { env } = this.#sources
    return (Object.hasOwn(env, name) && env[name]) || null
  }

  #refuse(path: string, expected: string): null {
    this.#faults.push({ path, expected })
    return null
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

import { type Static, Type } from "@sinclair/typebox"
import type { Fault } from "../wire/fault.ts"
import { ConfigError } from "./error.ts"
import type { Sources } from "./reference.ts"
import { withoutSlashes } from "./slashes.ts"
import { readVariable } from "./variable.ts"

/** Where traces go, and which (D54): what the environment's variables of OpenTelemetry say. */
export const Tracing = Type.Object({
  /** The address that spans are posted to. */
  endpoint: Type.String(),
  /** Of each such request; some are secrets. */
  headers: Type.Record(Type.String(), Type.String()),
  gzip: Type.Boolean(),
  /** How long such a request may take. */
  timeout_ms: Type.Integer(),
  /** What the spans are of: `service.name` and whatever else is said. */
  resource: Type.Record(Type.String(), Type.String()),
  /** The share of the traces that are recorded, and whether a client that says so itself is believed. */
  sampler: Type.Object({ parent_based: Type.Boolean(), ratio: Type.Number() }),
  /** Spans that wait at most; beyond it they are dropped. */
  queue_spans: Type.Integer(),
  /** Spans of one request, and how long the first of them waits for the others. */
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
 * Null when no endpoint is named, or traces are switched off. Throws a `ConfigError` that names every variable at fault and shows no value.
 * `OTEL_EXPORTER_OTLP_HEADERS_FILE` may name a file with what is secret, as everywhere (D39).
 */
export function readTracing(sources: Sources): Tracing | null {
  const { env } = sources
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === "true" || env.OTEL_TRACES_EXPORTER === "none") return null
  const faults: Fault[] = []
  const read = new Variables(sources, faults)
  const endpoint = read.endpoint()
  if (endpoint === null && faults.length === 0) return null
  read.oneOf("OTEL_TRACES_EXPORTER", ["otlp"])
  read.oneOf(read.specific("PROTOCOL"), ["http/protobuf"])
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

/** Reads variables one by one and notes what is wrong with them. An empty one counts as unset. */
class Variables {
  readonly #sources: Sources
  readonly #faults: Fault[]

  constructor(sources: Sources, faults: Fault[]) {
    this.#sources = sources
    this.#faults = faults
  }

  /** The name of the variable for traces alone where that is set, else that of the one for everything. */
  specific(what: string): string {
    const name = `OTEL_EXPORTER_OTLP_TRACES_${what}`
    return this.#text(name) === null ? `OTEL_EXPORTER_OTLP_${what}` : name
  }

  /** The one for traces is the whole address, the other one what stands before `/v1/traces`. */
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

/** `a=b,c=d`, percent-decoded; null when it is not that. */
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

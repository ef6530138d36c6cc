import { type Static, Type } from "@sinclair/typebox"
import { type FaultReport, type Sources, secretIn, withoutSlashes } from "./values.ts"

/** The address of a collector for one kind of telemetry, and how it is posted to. */
export const OtlpTarget = Type.Object({
  endpoint: Type.String(),
  /** Headers of each export request; some are secret. */
  headers: Type.Record(Type.String(), Type.String()),
  gzip: Type.Boolean(),
  timeout_ms: Type.Integer(),
  /** Resource attributes: `service.name` and others. */
  resource: Type.Record(Type.String(), Type.String()),
})
export type OtlpTarget = Static<typeof OtlpTarget>

/** A kind of telemetry, as the names of OpenTelemetry's variables have it. */
type OtlpSignal = "TRACES" | "METRICS"

/** Readers of the variables of one kind of telemetry, which report their errors. An empty variable counts as unset. */
export function otlpVariables(signal: OtlpSignal, sources: Sources, report: FaultReport) {
  /** The text of a variable; null if it is unset or not as expected. */
  const textIn = (name: string, fits: (text: string) => boolean = () => true, expected = "") => {
    const text = (Object.hasOwn(sources.env, name) && sources.env[name]) || null
    if (text === null || fits(text)) return text
    report(name, expected)
    return null
  }
  /** The name of the variable for this kind if it is set, otherwise of the general one. */
  const specific = (what: string) => {
    const name = `OTEL_EXPORTER_OTLP_${signal}_${what}`
    return textIn(name) === null ? `OTEL_EXPORTER_OTLP_${what}` : name
  }
  const oneOf = (name: string, words: readonly string[]) => {
    const expected = words.length === 1 ? `${words[0]}, or to be unset` : `one of ${words.join(", ")}`
    return textIn(name, (text) => words.includes(text), expected)
  }
  const integer = (name: string, otherwise: number) => {
    const isCount = (text: string) => /^[1-9]\d{0,8}$/.test(text)
    return Number(textIn(name, isCount, "an integer from 1 to 999999999") ?? otherwise)
  }
  const headers = (name: string): Record<string, string> => {
    const pairs = pairsOf(secretIn(name, sources, report) ?? "")
    const valid = pairs?.every(
      ([key, value]) => /^[\w!#$%&'*+.^`|~-]+$/.test(key) && /^[\x20-\x7e]*$/.test(value),
    )
    if (pairs !== null && valid) return Object.fromEntries(pairs)
    report(name, "headers such as api-key=secret,tenant=acme")
    return {}
  }
  const resource = () => {
    const name = "OTEL_RESOURCE_ATTRIBUTES"
    const pairs = pairsOf(textIn(name) ?? "")
    if (pairs === null) report(name, "attributes such as deployment.environment.name=production,team=acme")
    const attributes = Object.fromEntries(pairs ?? [])
    const service = textIn("OTEL_SERVICE_NAME") ?? attributes["service.name"] ?? "tollgate"
    return { ...attributes, "service.name": service }
  }
  return {
    text: textIn,
    oneOf,
    integer,
    /** The variable for this kind is a full URL. The general one is a base URL, to which `/v1/traces` or `/v1/metrics` is added. */
    endpoint(): string | null {
      const name = specific("ENDPOINT")
      const isUrl = (text: string) => /^https?:\/\/[^\s/]+/i.test(text) && URL.canParse(text)
      const text = textIn(name, isUrl, "an address such as http://127.0.0.1:4318")
      if (text === null || name.includes(signal)) return text
      return `${withoutSlashes(text)}/v1/${signal.toLowerCase()}`
    },
    target(endpoint: string): OtlpTarget {
      oneOf(specific("PROTOCOL"), ["http/json"])
      return {
        endpoint,
        headers: {
          ...headers("OTEL_EXPORTER_OTLP_HEADERS"),
          ...headers(`OTEL_EXPORTER_OTLP_${signal}_HEADERS`),
        },
        gzip: oneOf(specific("COMPRESSION"), ["none", "gzip"]) === "gzip",
        timeout_ms: integer(specific("TIMEOUT"), 10_000),
        resource: resource(),
      }
    },
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

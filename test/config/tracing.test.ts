import { describe, expect, test } from "bun:test"
import { readTracing } from "../../src/config/tracing.ts"
import type { Environ } from "../../src/config/values.ts"
import { readerOf, refusalOf, rowsOf } from "./small.ts"

const readFile = readerOf({ "/run/headers": "api-key=SECRET\n" })
const read = (env: Environ) => readTracing({ env, readFile })

const ON = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" }
const defaults = {
  endpoint: "http://127.0.0.1:4318/v1/traces",
  headers: {},
  gzip: false,
  timeout_ms: 10_000,
  resource: { "service.name": "tollgate" },
  sampler: { parent_based: true, ratio: 1 },
  queue_spans: 2_048,
  batch_spans: 512,
  delay_ms: 5_000,
}

describe("D54 no traces are kept", () => {
  const rows: [string, Environ][] = [
    ["when nothing is set", {}],
    ["when no endpoint is named", { OTEL_SERVICE_NAME: "gateway", OTEL_TRACES_SAMPLER: "nonsense" }],
    ["when it is empty", { OTEL_EXPORTER_OTLP_ENDPOINT: "" }],
    ["when they are switched off", { ...ON, OTEL_SDK_DISABLED: "True" }],
    ["when they go nowhere", { ...ON, OTEL_TRACES_EXPORTER: "none" }],
  ]
  test.each(rows)("%s", (_, env) => {
    expect(read(env)).toBeNull()
  })
})

describe("D54 OpenTelemetry's variables", () => {
  const rows: [Environ, object][] = [
    [{}, {}],
    [{ OTEL_SDK_DISABLED: "false" }, {}],
    [{ OTEL_TRACES_EXPORTER: "otlp" }, {}],
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT: "https://otel.example.com/in/" },
      { endpoint: "https://otel.example.com/in/v1/traces" },
    ],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://here/in" }, { endpoint: "http://here/in" }],
    [{ OTEL_EXPORTER_OTLP_HEADERS: "api-key=a%20b, x=y=z" }, { headers: { "api-key": "a b", x: "y=z" } }],
    [
      { OTEL_EXPORTER_OTLP_HEADERS: "a=1,b=1", OTEL_EXPORTER_OTLP_TRACES_HEADERS: "b=2" },
      { headers: { a: "1", b: "2" } },
    ],
    [{ OTEL_EXPORTER_OTLP_HEADERS_FILE: "/run/headers" }, { headers: { "api-key": "SECRET" } }],
    [{ OTEL_EXPORTER_OTLP_COMPRESSION: "gzip" }, { gzip: true }],
    [{ OTEL_EXPORTER_OTLP_COMPRESSION: "gzip", OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: "none" }, {}],
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" }, {}],
    [{ OTEL_EXPORTER_OTLP_TIMEOUT: "500" }, { timeout_ms: 500 }],
    [{ OTEL_SERVICE_NAME: "edge" }, { resource: { "service.name": "edge" } }],
    [
      { OTEL_RESOURCE_ATTRIBUTES: "team=a%2Cb,service.name=one" },
      { resource: { team: "a,b", "service.name": "one" } },
    ],
    [
      { OTEL_RESOURCE_ATTRIBUTES: "service.name=one", OTEL_SERVICE_NAME: "two" },
      { resource: { "service.name": "two" } },
    ],
    [{ OTEL_TRACES_SAMPLER: "always_on" }, { sampler: { parent_based: false, ratio: 1 } }],
    [{ OTEL_TRACES_SAMPLER: "always_off" }, { sampler: { parent_based: false, ratio: 0 } }],
    [
      { OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.25" },
      { sampler: { parent_based: false, ratio: 0.25 } },
    ],
    [{ OTEL_TRACES_SAMPLER: "parentbased_always_off" }, { sampler: { parent_based: true, ratio: 0 } }],
    [
      { OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: ".5" },
      { sampler: { parent_based: true, ratio: 0.5 } },
    ],
    [{ OTEL_TRACES_SAMPLER: "parentbased_always_on", OTEL_TRACES_SAMPLER_ARG: "0.5" }, {}],
    [{ OTEL_BSP_MAX_QUEUE_SIZE: "100" }, { queue_spans: 100, batch_spans: 100 }],
    [
      { OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "64", OTEL_BSP_SCHEDULE_DELAY: "100" },
      { batch_spans: 64, delay_ms: 100 },
    ],
  ]
  test.each(rows)("%j", (env, expected) => {
    expect(read({ ...ON, ...env })).toEqual({ ...defaults, ...expected })
  })
})

describe("D54 a wrong variable stops the start with a sentence that shows no value", () => {
  const refused: Readonly<Record<string, Environ | readonly Environ[]>> = {
    "OTEL_EXPORTER_OTLP_ENDPOINT: expected an address such as http://127.0.0.1:4318": [
      { OTEL_EXPORTER_OTLP_ENDPOINT: "SECRET:4317" },
      { OTEL_EXPORTER_OTLP_ENDPOINT: "http:///SECRET" },
    ],
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: expected an address such as http://127.0.0.1:4318": {
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "grpc://SECRET",
    },
    "OTEL_EXPORTER_OTLP_PROTOCOL: expected http/json, or to be unset": {
      OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
    },
    "OTEL_TRACES_EXPORTER: expected otlp, or to be unset": { OTEL_TRACES_EXPORTER: "zipkin" },
    "OTEL_TRACES_SAMPLER: expected one of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio":
      { OTEL_TRACES_SAMPLER: "SECRET" },
    "OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1": { OTEL_TRACES_SAMPLER_ARG: "1.5" },
    "OTEL_EXPORTER_OTLP_HEADERS: expected headers such as api-key=secret,tenant=acme": [
      { OTEL_EXPORTER_OTLP_HEADERS: "SECRET" },
      { OTEL_EXPORTER_OTLP_HEADERS: "a b=SECRET" },
      { OTEL_EXPORTER_OTLP_HEADERS: "a=SECRET%0d%0ab" },
      { OTEL_EXPORTER_OTLP_HEADERS: "a=SECRET%" },
    ],
    "OTEL_EXPORTER_OTLP_HEADERS: expected to be unset when OTEL_EXPORTER_OTLP_HEADERS_FILE is set": {
      OTEL_EXPORTER_OTLP_HEADERS: "a=SECRET",
      OTEL_EXPORTER_OTLP_HEADERS_FILE: "/run/headers",
    },
    "OTEL_EXPORTER_OTLP_HEADERS_FILE: expected the path of a readable, non-empty file": {
      OTEL_EXPORTER_OTLP_HEADERS_FILE: "/run/SECRET",
    },
    "OTEL_RESOURCE_ATTRIBUTES: expected attributes such as deployment.environment.name=production,team=acme":
      { OTEL_RESOURCE_ATTRIBUTES: "SECRET" },
    "OTEL_EXPORTER_OTLP_COMPRESSION: expected one of none, gzip": {
      OTEL_EXPORTER_OTLP_COMPRESSION: "SECRET",
    },
    "OTEL_EXPORTER_OTLP_TIMEOUT: expected an integer from 1 to 999999999": {
      OTEL_EXPORTER_OTLP_TIMEOUT: "10s",
    },
    "OTEL_BSP_MAX_QUEUE_SIZE: expected an integer from 1 to 999999999": { OTEL_BSP_MAX_QUEUE_SIZE: "0" },
    "OTEL_BSP_SCHEDULE_DELAY: expected an integer from 1 to 999999999": {
      OTEL_TRACES_SAMPLER: "SECRET",
      OTEL_BSP_SCHEDULE_DELAY: "-1",
    },
  }
  test.each(rowsOf(refused))("%s: %j", (sentence, env) => {
    const said = refusalOf(() => read({ ...ON, ...env }))
    expect(said).toContain(sentence)
    expect(said).not.toContain("SECRET")
  })
})

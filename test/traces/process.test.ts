import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { join } from "node:path"
import type { GatewayProcess, Variables } from "../process/gateway-process.ts"
import { databaseVariables, readLedger, type Spawning, Workplace } from "../process/workplace.ts"
import { type FreshDatabase, freshDatabase } from "../support/database.ts"
import { chat, configFor, until } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { GATEWAY_SOURCE } from "../support/programs.ts"
import { chatCompletion, json, type Provider, startProvider, usage } from "../support/provider.ts"
import { type CollectedMetric, type Collector, startCollector } from "./collector.ts"

let place: Workplace
let provider: Provider
let collector: Collector
let fresh: FreshDatabase
beforeEach(async () => {
  place = new Workplace()
  collector = startCollector()
  provider = await startProvider()
  provider.reply(json(200, chatCompletion("hi", { usage: usage(10, 5) })))
  fresh = await freshDatabase()
  place.configure(configFor(provider.url))
})
afterEach(async () => {
  await place.clear()
  await provider.stop()
  await collector.stop()
  await fresh.drop()
})

const start = (variables: Variables, spawning: Spawning = {}) =>
  place.start({ ...databaseVariables(fresh.address), ...variables }, spawning)

/** Nothing leaves before the end, unless there is very much of it. */
const AT_THE_END = { OTEL_BSP_SCHEDULE_DELAY: "999999999" }

/** So many calls of a new account, each on a connection of its own; the ids of their requests. */
async function calls(gateway: GatewayProcess, count: number): Promise<string[]> {
  const { key } = await operatorOf(gateway.url).account()
  const ids: string[] = []
  while (ids.length < count) {
    const answer = await chat(gateway, key, {}, { keepalive: false })
    expect(answer.status).toBe(200)
    await answer.text()
    ids.push(answer.headers.get("x-request-id") ?? "")
  }
  return ids
}

async function end(gateway: GatewayProcess): Promise<void> {
  gateway.signal("SIGTERM")
  expect(await gateway.exited).toBe(0)
  const { calls: _, ...ledger } = await readLedger(fresh.address)
  expect(ledger).toEqual({ open_holds: 0, violations: [] })
}

const traced = () =>
  collector.spans.flatMap(({ attributes }) => attributes["tollgate.request_id"] ?? []).map(String)

describe("D54 a gateway as a process", () => {
  test("loads nothing of the traces when no endpoint is named", async () => {
    const preload = { BUN_OPTIONS: `--preload ${join(import.meta.dir, "loaded.ts")}` }
    const file = GATEWAY_SOURCE
    const without = await start({ ...preload, OTEL_SERVICE_NAME: "gateway" }, { file })
    await calls(without, 2)
    await end(without)
    expect(without.printed).toMatch(/^loaded of the traces: 0 of \d{3,}$/m)
    const with_traces = await start({ ...preload, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }, { file })
    await end(with_traces)
    expect(with_traces.printed).toMatch(/^loaded of the traces: [5-9] of/m)
    expect(collector.posts).toEqual([])
  })

  test("sends what it has before it ends, from every worker", async () => {
    const gateway = await start(
      { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...AT_THE_END },
      { args: ["--workers", "2"] },
    )
    const asked = await calls(gateway, 40)
    expect(collector.posts).toEqual([])
    await end(gateway)
    expect(traced().sort()).toEqual(asked.sort())
    const workers = new Set(collector.spans.map(({ resource }) => resource["tollgate.worker"]))
    expect([...workers].sort()).toEqual([1n, 2n])
    expect(new Set(collector.spans.map(({ resource }) => resource["service.instance.id"])).size).toBe(2)
  })
})

describe("D108 a gateway as a process", () => {
  const pushing = (interval: string, args: readonly string[] = []) =>
    start(
      {
        OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${collector.url}/v1/metrics`,
        OTEL_METRIC_EXPORT_INTERVAL: interval,
      },
      { args },
    )
  const settledIn = (metrics: readonly CollectedMetric[]) =>
    metrics.filter(({ name }) => name === "tollgate_calls_settled_total")

  test("pushes at each interval; a collector that refuses is named once in the log, and nothing is lost", async () => {
    collector.reply(() => new Response(null, { status: 500 }))
    const gateway = await pushing("50")
    await gateway.prints("metrics cannot be pushed: the collector is unreachable or refuses them")
    const { key } = await operatorOf(gateway.url).account()
    await (await chat(gateway, key)).text()
    collector.reply(() => Response.json({}))
    await gateway.prints("metrics are pushed again")
    const before = collector.posts.length
    await until(
      () => settledIn(collector.posts.slice(before).flatMap(({ metrics }) => metrics)),
      ([settled]) => settled?.value === 1,
    )
    expect(collector.most_at_once).toBe(1)
    expect(gateway.printed.match(/metrics cannot be pushed/g)).toHaveLength(1)
  })

  test("pushes once more when it ends, and each worker its own", async () => {
    const gateway = await pushing("999999999", ["--workers", "2"])
    const { key } = await operatorOf(gateway.url).account()
    for (let count = 0; count < 4; count += 1)
      await (await chat(gateway, key, {}, { keepalive: false })).text()
    expect(collector.posts).toEqual([])
    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
    expect(collector.posts).toHaveLength(2)
    const { metrics } = collector
    expect(settledIn(metrics).reduce((sum, { value }) => sum + value, 0)).toBe(4)
    const sources = metrics.map(({ resource }) => resource["service.instance.id"])
    expect(new Set(sources).size).toBe(2)
    expect(new Set(metrics.map(({ attributes }) => attributes.worker))).toEqual(new Set(["1", "2"]))
  })
})

import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { spanExporter } from "../../src/traces/exporter.ts"
import type { TraceSpan } from "../../src/traces/otlp.ts"
import { newSpanId, newTraceId } from "../../src/traces/recorded.ts"
import { untilIs } from "../support/gateway.ts"
import { type Collector, startCollector } from "./collector.ts"
import { tracing } from "./tracing.ts"

let collector: Collector
beforeEach(() => {
  collector = startCollector()
})
afterEach(() => collector.stop())

/** An exporter, and everything that it told. */
function exporting(env: Readonly<Record<string, string>> = {}, url = collector.url) {
  const told: string[] = []
  const counts = { exported: 0, queue_full: 0, refused: 0, unreachable: 0 }
  const exporter = spanExporter({
    tracing: tracing({ url }, env),
    origin: { resource: {}, scope: { name: "tollgate", version: "0" } },
    exported: (count) => {
      counts.exported += count
    },
    dropped: (count, reason) => {
      counts[reason] += count
    },
    failing: (reason) => told.push(reason),
    recovered: () => told.push("recovered"),
  })
  return { exporter, counts, told }
}

function spans(count = 4): TraceSpan[] {
  const trace_id = newTraceId()
  return Array.from({ length: count }, () => ({
    trace_id,
    span_id: newSpanId(),
    parent_id: null,
    remote_parent: false,
    tracestate: null,
    name: "a span",
    kind: "internal",
    began_ms: 1,
    ended_ms: 2,
    attributes: {},
    events: [],
    failed: false,
  }))
}

/** Answers when the test says so, or never. */
function held() {
  const { promise, resolve } = Promise.withResolvers<Response>()
  collector.reply(() => promise)
  return () => resolve(new Response())
}

const NEVER = { OTEL_BSP_SCHEDULE_DELAY: "999999999" }

describe("D54 spans leave together", () => {
  test("a little after the first of them", async () => {
    const { exporter } = exporting()
    exporter.add(spans())
    exporter.add(spans())
    await untilIs(() => collector.spans.length, 8)
    expect(collector.posts).toHaveLength(1)
    expect(collector.posts[0]?.headers.get("content-type")).toBe("application/json")
    await exporter.stop()
  })

  test("at once when there are enough, and no more than that in one request", async () => {
    const { exporter, counts } = exporting({ ...NEVER, OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "8" })
    for (let trace = 0; trace < 6; trace++) exporter.add(spans())
    await untilIs(() => counts.exported, 24)
    expect(collector.posts.map((post) => post.spans.length)).toEqual([8, 8, 8])
    await exporter.stop()
  })

  test("when the process ends, and none is lost", async () => {
    const { exporter, counts } = exporting({ ...NEVER, OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "5" })
    exporter.add(spans())
    expect(collector.posts).toEqual([])
    await exporter.stop()
    expect(collector.spans).toHaveLength(4)
    expect(counts).toEqual({ exported: 4, queue_full: 0, refused: 0, unreachable: 0 })
    exporter.add(spans())
    expect(counts.queue_full).toBe(4)
  })

  test("compressed, where that is wanted", async () => {
    const { exporter } = exporting({ OTEL_EXPORTER_OTLP_COMPRESSION: "gzip" })
    exporter.add(spans())
    await exporter.stop()
    expect(collector.posts[0]?.headers.get("content-encoding")).toBe("gzip")
    expect(collector.spans).toHaveLength(4)
  })
})

test("D54 what comes while others are sent waits for company again", async () => {
  const { exporter, counts } = exporting({ ...NEVER, OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "4" })
  const release = held()
  exporter.add(spans(4))
  exporter.add(spans(2))
  release()
  await untilIs(() => counts.exported, 4)
  exporter.add(spans(1))
  await exporter.stop()
  expect(collector.posts.map((post) => post.spans.length)).toEqual([4, 3])
})

describe("D54 a collector that does not take them", () => {
  test("is slow: so many wait, whole traces are dropped beyond that, and one request is there at a time", async () => {
    const release = held()
    const { exporter, counts } = exporting({
      OTEL_BSP_MAX_QUEUE_SIZE: "20",
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "8",
    })
    exporter.add(spans(8))
    await untilIs(() => collector.posts.length, 1)
    for (let trace = 0; trace < 10; trace++) exporter.add(spans(6))
    expect(counts).toMatchObject({ exported: 0, queue_full: 42 })
    release()
    await untilIs(() => counts.exported, 26)
    expect(collector.most_at_once).toBe(1)
    const traces = Map.groupBy(collector.spans, ({ trace_id }) => trace_id)
    expect([...traces.values()].map((all) => all.length)).toEqual([8, 6, 6, 6])
    await exporter.stop()
  })

  test("refuses them: they are not sent again; that is told once, and that it is over", async () => {
    collector.reply(() => new Response("no", { status: 401 }))
    const { exporter, counts, told } = exporting({ OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "4" })
    for (let trace = 0; trace < 3; trace++) exporter.add(spans())
    await untilIs(() => counts.refused, 12)
    expect(told).toEqual(["it answers 401"])
    collector.reply(() => new Response())
    exporter.add(spans())
    await exporter.stop()
    expect([counts.exported, collector.posts.length]).toEqual([4, 4])
    expect(told).toEqual(["it answers 401", "recovered"])
  })

  test("is busy: the same spans come again, once each", async () => {
    const statuses = [503, 200]
    collector.reply(
      () => new Response(null, { status: statuses.shift() ?? 200, headers: { "retry-after": "1" } }),
    )
    const { exporter, counts, told } = exporting()
    exporter.add(spans())
    await untilIs(() => counts.exported, 4)
    expect(collector.posts.map(({ bytes }) => Buffer.from(bytes).toString("hex"))).toEqual(
      Array.from({ length: 2 }, () => Buffer.from(collector.posts[0]?.bytes ?? []).toString("hex")),
    )
    expect(told).toEqual(["it answers 503", "recovered"])
    await exporter.stop()
  })

  test("takes a part: the rest is counted", async () => {
    collector.reply(() => Response.json({ partialSuccess: { rejectedSpans: "3" } }))
    const { exporter, counts } = exporting()
    exporter.add(spans())
    await exporter.stop()
    expect(counts).toEqual({ exported: 1, queue_full: 0, refused: 3, unreachable: 0 })
  })

  test("points elsewhere: nobody goes there", async () => {
    collector.reply(({ path }) =>
      path === "/elsewhere" ? new Response() : Response.redirect(`${collector.url}/elsewhere`, 307),
    )
    const { exporter, counts } = exporting()
    exporter.add(spans())
    await exporter.stop()
    expect(collector.posts.map(({ path }) => path)).toEqual(["/v1/traces"])
    expect(counts.refused).toBe(4)
  })

  test("answers without end: no more is read than such answers have", async () => {
    collector.reply(
      () =>
        new Response(
          new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536)) }),
        ),
    )
    const { exporter, counts } = exporting()
    exporter.add(spans())
    await untilIs(() => counts.exported, 4)
    await exporter.stop()
  })

  const silent: [string, () => { url: string; stop(): void }][] = [
    [
      "is not there",
      () => {
        const gone = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } })
        gone.stop(true)
        return { url: `http://127.0.0.1:${gone.port}`, stop() {} }
      },
    ],
    [
      "says nothing",
      () => {
        const mute = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } })
        return { url: `http://127.0.0.1:${mute.port}`, stop: () => mute.stop(true) }
      },
    ],
    [
      "talks nonsense",
      () => {
        const rude = Bun.listen({
          hostname: "127.0.0.1",
          port: 0,
          socket: { data: (socket) => void socket.end("nonsense\r\n\r\n") },
        })
        return { url: `http://127.0.0.1:${rude.port}`, stop: () => rude.stop(true) }
      },
    ],
  ]
  test.each(silent)("%s: the process ends all the same, and what is lost is counted", async (_, open) => {
    const place = open()
    const { exporter, counts, told } = exporting({ OTEL_EXPORTER_OTLP_TIMEOUT: "300" }, place.url)
    exporter.add(spans())
    await untilIs(() => told.length, 1)
    exporter.add(spans())
    await exporter.stop()
    expect(counts).toEqual({ exported: 0, queue_full: 0, refused: 0, unreachable: 8 })
    expect(told).toHaveLength(1)
    expect(told.join()).toMatch(/^\w+$/)
    place.stop()
  })

  test("keeps the end waiting for two seconds at most, whatever its own timeout is", async () => {
    held()
    const { exporter, counts } = exporting({ OTEL_EXPORTER_OTLP_TIMEOUT: "60000" })
    exporter.add(spans())
    await exporter.stop()
    expect(counts.unreachable).toBe(4)
  })
})

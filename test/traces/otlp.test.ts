import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { exportRequest, rejectedSpans, type TraceSpan } from "../../src/traces/otlp.ts"
import { readSpans } from "./collector.ts"

const origin = { resource: { "service.name": "tollgate" }, scope: { name: "tollgate", version: "1.2.3" } }
const hex = (digits: number) =>
  fc
    .array(fc.constantFrom(..."0123456789abcdef"), { minLength: digits, maxLength: digits })
    .map((all) => all.join(""))
const value = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 300 }),
  fc.boolean(),
  fc.maxSafeInteger(),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.double({ noNaN: true, min: 0.0001, max: 0.9999 }),
  fc.array(fc.string(), { maxLength: 5 }),
)
const anySpan: fc.Arbitrary<TraceSpan> = fc.record({
  trace_id: hex(32),
  span_id: hex(16),
  parent_id: fc.option(hex(16)),
  remote_parent: fc.boolean(),
  tracestate: fc.option(fc.string({ minLength: 1 })),
  name: fc.string({ minLength: 1 }),
  kind: fc.constantFrom("internal", "server", "client"),
  began_ms: fc.integer({ min: 0, max: 4e12 }),
  ended_ms: fc.integer({ min: 0, max: 4e12 }),
  attributes: fc.dictionary(fc.string({ minLength: 1 }), fc.oneof(value, fc.constant(null)), { maxKeys: 12 }),
  events: fc.array(fc.record({ name: fc.string(), at_ms: fc.integer({ min: 0, max: 4e12 }) }), {
    maxLength: 3,
  }),
  failed: fc.boolean(),
})

describe("D54 what is exported", () => {
  test("is read again as it was, whatever it is", () => {
    fc.assert(
      fc.property(fc.array(anySpan, { maxLength: 8 }), (spans) => {
        const read = readSpans(exportRequest(origin, spans))
        expect(read).toEqual(
          spans.map(({ attributes, events, ...one }) => ({
            trace_id: one.trace_id,
            span_id: one.span_id,
            parent_id: one.parent_id ?? "",
            tracestate: one.tracestate ?? "",
            name: one.name,
            kind: { internal: 1, server: 2, client: 3 }[one.kind],
            began_nano: BigInt(one.began_ms) * 1_000_000n,
            ended_nano: BigInt(one.ended_ms) * 1_000_000n,
            attributes: Object.fromEntries(
              Object.entries(attributes).flatMap(([name, said]) => {
                if (said === null || said === undefined) return []
                return [[name, typeof said === "number" && Number.isInteger(said) ? BigInt(said) : said]]
              }),
            ),
            events: events.map(({ name, at_ms }) => ({ name, at_nano: BigInt(at_ms) * 1_000_000n })),
            status: one.failed ? 2 : 0,
            flags: one.remote_parent ? 0x301 : 0x101,
            resource: { "service.name": "tollgate" },
            scope: "tollgate 1.2.3",
          })),
        )
      }),
      { numRuns: 200 },
    )
  })

  test("has times of less than a microsecond", () => {
    const [span] = fc.sample(anySpan, 1)
    const times = { began_ms: 1_795_000_000_000.25, ended_ms: 1_795_000_000_001.5 }
    const [read] = readSpans(exportRequest(origin, span === undefined ? [] : [{ ...span, ...times }]))
    expect([read?.began_nano, read?.ended_nano]).toEqual([
      1_795_000_000_000_250_000n,
      1_795_000_000_001_500_000n,
    ])
  })
})

describe("D54 what a collector answers", () => {
  const rows: [string, string, number][] = [
    ["nothing", "", 0],
    ["it took all", "{}", 0],
    ["it took a part", '{"partialSuccess":{"rejectedSpans":"300","errorMessage":"full"}}', 300],
    ["it took a part, and says so in a number", '{"partialSuccess":{"rejectedSpans":3}}', 3],
    ["it took all, and has a word to say", '{"partialSuccess":{"errorMessage":"be gentle"}}', 0],
    ["no number", '{"partialSuccess":{"rejectedSpans":"many"}}', 0],
    ["less than nothing", '{"partialSuccess":{"rejectedSpans":"-1"}}', 0],
    ["null", "null", 0],
    ["a page", "<html>", 0],
  ]
  test.each(rows)("%s", (_, answer, rejected) => {
    expect(rejectedSpans(answer)).toBe(rejected)
  })
})

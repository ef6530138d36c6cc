import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { exportRequest, rejectedSpans } from "../../src/traces/otlp.ts"
import { ProtobufWriter } from "../../src/traces/protobuf.ts"
import type { Span } from "../../src/traces/span.ts"
import { readSpans } from "./collector.ts"

const origin = { resource: { "service.name": "tollgate" }, scope: { name: "tollgate", version: "1.2.3" } }
const span: Span = {
  trace_id: "4bf92f3577b34da6a3ce929d0e0e4736",
  span_id: "00f067aa0ba902b7",
  parent_id: null,
  remote_parent: false,
  tracestate: null,
  name: "a span",
  kind: "internal",
  began_ms: 1_795_000_000_000.25,
  ended_ms: 1_795_000_000_001.5,
  attributes: {},
  events: [],
  failed: false,
}

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
const anySpan: fc.Arbitrary<Span> = fc.record({
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
    const [read] = readSpans(exportRequest(origin, [span]))
    expect([read?.began_nano, read?.ended_nano]).toEqual([
      1_795_000_000_000_250_000n,
      1_795_000_000_001_500_000n,
    ])
  })

  test("is byte for byte what the protocol says of a known message", () => {
    const writer = new ProtobufWriter()
    writer.integer(1, 150)
    writer.text(2, "testing")
    writer.message(3, () => writer.integer(1, 150))
    writer.integer(4, -1)
    writer.fixed32(5, 1)
    expect(Buffer.from(writer.bytes).toString("hex")).toBe(
      "089601" + "120774657374696e67" + "1a03089601" + "20ffffffffffffffffff01" + "2d01000000",
    )
  })

  test.each([0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152])("a message of %d bytes", (length) => {
    const name = "x".repeat(length)
    expect(readSpans(exportRequest(origin, [{ ...span, name }])).map((read) => read.name)).toEqual([name])
  })
})

describe("D54 what a collector answers", () => {
  const answer = (write: (writer: ProtobufWriter) => void) => {
    const writer = new ProtobufWriter()
    write(writer)
    return writer.bytes
  }
  const rows: [string, Uint8Array, number][] = [
    ["nothing", new Uint8Array(), 0],
    ["it took a part", answer((writer) => writer.message(1, () => writer.integer(1, 300))), 300],
    [
      "it took all, and has a word to say",
      answer((writer) => writer.message(1, () => writer.text(2, "be gentle"))),
      0,
    ],
    ["what is no message", Buffer.from('{"partialSuccess":{}}'), 0],
    ["a page", Buffer.from("<html>"), 0],
    ["a length beyond the end", Buffer.from([0x0a, 0xff, 0xff, 0xff, 0x7f]), 0],
    ["a number without an end", Buffer.from([0x0a, 0xff]), 0],
  ]
  test.each(rows)("%s", (_, bytes, rejected) => {
    expect(rejectedSpans(bytes)).toBe(rejected)
  })
})

import { describe, expect, test } from "bun:test"
import { readTraceContext, traceHeaders } from "../../src/wire/trace-context.ts"

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
const SPAN = "00f067aa0ba902b7"

const read = (traceparent: string, tracestate?: string) =>
  readTraceContext(new Headers({ traceparent, ...(tracestate === undefined ? {} : { tracestate }) }))

describe("D54 a traceparent", () => {
  const valid: [string, string, boolean][] = [
    ["of a trace that is recorded", `00-${TRACE}-${SPAN}-01`, true],
    ["of one that is not", `00-${TRACE}-${SPAN}-00`, false],
    ["with flags that are not known", `00-${TRACE}-${SPAN}-ff`, true],
    ["of a later version", `01-${TRACE}-${SPAN}-01`, true],
    ["of a later version, with more to say", `cc-${TRACE}-${SPAN}-01-what-the-future-holds`, true],
  ]
  test.each(valid)("%s", (_, traceparent, sampled) => {
    expect(read(traceparent)).toEqual({ trace_id: TRACE, span_id: SPAN, sampled, tracestate: null })
  })

  const invalid: [string, string][] = [
    ["empty", ""],
    ["a version that there never will be", `ff-${TRACE}-${SPAN}-01`],
    ["version 00 with more to say", `00-${TRACE}-${SPAN}-01-more`],
    ["capitals", `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ["no trace", `00-${"0".repeat(32)}-${SPAN}-01`],
    ["no span", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["too long a span", `00-${TRACE}-${SPAN}0-01`],
    ["no flags", `00-${TRACE}-${SPAN}`],
    ["no separators", `00${TRACE}${SPAN}01`],
    ["a later version without a separator", `01-${TRACE}-${SPAN}-01more`],
    ["two of them", `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`],
  ]
  test.each(invalid)("is ignored: %s", (_, traceparent) => {
    expect(read(traceparent, "a=b")).toBeNull()
  })

  test("is not there", () => {
    expect(readTraceContext(new Headers({ tracestate: "a=b" }))).toBeNull()
  })

  test("is said again as version 00", () => {
    const context = read(`01-${TRACE}-${SPAN}-03`, " rojo=00f067 ,, congo=t61rc ")
    if (context === null) throw new Error("not read")
    expect(traceHeaders(context)).toEqual({
      traceparent: `00-${TRACE}-${SPAN}-01`,
      tracestate: "rojo=00f067,congo=t61rc",
    })
    expect(traceHeaders({ ...context, sampled: false, tracestate: null })).toEqual({
      traceparent: `00-${TRACE}-${SPAN}-00`,
    })
  })
})

describe("D54 a tracestate", () => {
  const many = (count: number) => Array.from({ length: count }, (_, at) => `k${at}=v`).join(",")
  const rows: [string, string, string | null][] = [
    ["a key that begins with a digit", "0rojo=v", "0rojo=v"],
    ["a tenant", "0tenant@vendor=v", "0tenant@vendor=v"],
    ["a value with spaces within", "a=b c", "a=b c"],
    ["32 members", many(32), many(32)],
    ["33 members", many(33), null],
    ["more than 512 bytes", `a=${"b".repeat(511)}`, null],
    ["nothing", " , ,", null],
    ["no value", "a=", null],
    ["no pair", "ab", null],
    ["a key in capitals", "A=b", null],
    ["a key twice", "a=b,a=c", null],
    ["letters of another alphabet", "a=\u00e9", null],
  ]
  test.each(rows)("%s", (_, tracestate, expected) => {
    expect(read(`00-${TRACE}-${SPAN}-01`, tracestate)?.tracestate).toBe(expected)
  })
})

import { describe, expect, test } from "bun:test"
import { requestHeaders, retryAfter } from "../../src/upstream/headers.ts"
import { upstream } from "./calling.ts"

const COMMON = {
  "content-type": "application/json",
  "accept-encoding": "identity",
  "user-agent": "tollgate",
  "x-request-id": "id-1",
}
const JSON_ONLY = { ...COMMON, accept: "application/json" }

describe("what a provider is sent (D25)", () => {
  const messages = upstream("http://x", { api_key: "sk-1", family: "messages" })
  const rows = [
    ["no credential", upstream("http://x", { api_key: null }), false, {}, JSON_ONLY],
    [
      "further headers replace none of ours",
      messages,
      false,
      { "x-api-key": "stolen", "accept-encoding": "gzip", "x-request-id": "theirs" },
      { ...JSON_ONLY, "x-api-key": "sk-1" },
    ],
  ] as const
  test.each(rows)("%s", (_name, to, stream, further, expected) => {
    expect(requestHeaders(to, to.keys[0], "id-1", stream, further)).toEqual(expected)
  })
})

describe("D24 a provider's Retry-After passes only as a small number of seconds", () => {
  const rows: [value: string | null, passes: string | null][] = [
    ["0", "0"],
    ["20", "20"],
    ["3600", "3600"],
    ["3601", null],
    ["-1", null],
    ["+5", null],
    ["1.5", "2"],
    ["0.001", "1"],
    ["1e3", null],
    ["", null],
    ["Wed, 21 Oct 2026 07:28:00 GMT", "90"],
    ["Wed, 21 Oct 2026 07:20:00 GMT", "0"],
    ["Wed, 21 Oct 2027 07:28:00 GMT", null],
    ["Wed, 99 Oct 2026 07:28:00 GMT", null],
    [null, null],
  ]
  test.each(rows)("%p -> %p", (value, passes) => {
    const now_ms = Date.parse("2026-10-21T07:26:30Z")
    expect(retryAfter(new Headers(value === null ? {} : { "retry-after": value }), now_ms)).toBe(passes)
  })

  test("retry-after-ms counts before it, rounded up", () => {
    const told = (ms: string) => retryAfter(new Headers({ "retry-after-ms": ms, "retry-after": "20" }), 0)
    expect(["1", "1500", "2000.5", "soon", "9999999"].map(told)).toEqual(["1", "2", "3", "20", null])
  })
})

import { describe, expect, test } from "bun:test"
import { parseWrk, wrkScript } from "../../bench/wrk-program.ts"

const output = (lines: string) => `Running 4s test @ http://127.0.0.1:8080/v1/chat/completions
  1 threads and 128 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    40.11ms   10.83ms 120.55ms   74.70%
  Latency Distribution
     50%  870.00us
     75%   45.12ms
     90%   53.67ms
     99%    1.07s
  12790 requests in 4.01s, 11.36MB read
${lines}Requests/sec:   3189.62
Transfer/sec:      2.83MB
`

describe("what wrk prints", () => {
  test.each([
    ["is read with its units", ""],
    ["may have slow answers", "  Socket errors: connect 0, read 0, write 0, timeout 3\n"],
  ])("%s", (_name, lines) => {
    expect(parseWrk(output(lines))).toEqual({ calls_per_s: 3189.62, p50_ms: 0.87, p99_ms: 1070 })
  })

  test.each([
    ["calls that failed", output("  Non-2xx or 3xx responses: 12790\n"), "12790 answers"],
    ["connections that broke", output("  Socket errors: connect 0, read 7, write 0, timeout 0\n"), "read 7"],
    ["nothing", "", "unexpected output"],
  ])("%s are an error", (_name, text, words) => {
    expect(() => parseWrk(text)).toThrow(words)
  })
})

describe("what wrk is told", () => {
  const body = JSON.stringify({ content: 'a "quote", a \\ and a\nline' })

  test("with one account it builds the request once", () => {
    const script = wrkScript(["Bearer a"], body)
    expect(script).toContain('wrk.headers["authorization"] = "Bearer a"')
    expect(script).not.toContain("function request")
    const [, literal = ""] = /^wrk\.body = (.*)$/m.exec(script) ?? []
    expect(JSON.parse(literal)).toBe(body)
  })

  test("with many it goes over them in turn", () => {
    const script = wrkScript(["Bearer a", "Bearer b"], body)
    expect(script).toContain('local authorizations = {"Bearer a", "Bearer b"}')
    expect(script).toContain("function request")
  })
})

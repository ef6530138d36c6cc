import { describe, expect, test } from "bun:test"
import { readCommand, USAGE } from "../../bench/command.ts"

const endpoint = ["--url", "http://127.0.0.1:8080/v1", "--key", "k", "--model", "m"]

describe("the command line", () => {
  test.each([
    [[], { kind: "suite", quick: false, only: [], rounds: null, json: null }],
    [
      ["--quick", "--only", "a", "--only", "b", "--rounds", "3"],
      { kind: "suite", quick: true, only: ["a", "b"], rounds: 3 },
    ],
    [["--json", "a.json", "--html", "b.html"], { kind: "suite", json: "a.json", html: "b.html" }],
    [["--soak"], { kind: "soak", calls: 200_000, past: 2_000_000 }],
    [["--soak", "--calls", "1000", "--past", "20000"], { kind: "soak", calls: 1000, past: 20_000 }],
    [
      endpoint,
      { kind: "endpoint", model: "m", stream: false, rate: null, concurrency: 1, duration_ms: 10_000 },
    ],
    [
      [...endpoint, "--stream", "--rate", "2.5", "--duration", "2m"],
      { stream: true, rate: 2.5, duration_ms: 120_000 },
    ],
    [[...endpoint, "--goodput", "ttft:200 inter_chunk:50"], { level: { ttft_ms: 200, inter_chunk_ms: 50 } }],
    [["--history"], { kind: "history", calls: 20_000_000 }],
    [["--history", "--calls", "1000"], { kind: "history", calls: 1_000 }],
    [["--wrk"], { kind: "wrk", accounts: 1, rounds: null, quick: false }],
    [["--wrk", "--accounts", "1000", "--rounds", "5"], { kind: "wrk", accounts: 1000, rounds: 5 }],
    [["--help"], { kind: "help" }],
  ])("%j", (args, command) => {
    expect(readCommand(args)).toMatchObject(command)
  })

  test.each([
    [["--url", "nowhere", "--key", "k", "--model", "m"], "--url"],
    [["--url", "ftp://127.0.0.1", "--key", "k", "--model", "m"], "--url"],
    [["--url", "http://127.0.0.1"], "--key"],
    [[...endpoint, "--rate", "1", "--concurrency", "1"], "either"],
    [[...endpoint, "--rate", "0"], "--rate"],
    [[...endpoint, "--duration", "10"], "--duration"],
    [[...endpoint, "--goodput", "speed:1"], "--goodput"],
    [["--rounds", "0"], "--rounds"],
    [["--slow"], "--slow"],
    [["json-1"], "json-1"],
  ])("%j is refused with the option's name", (args, name) => {
    expect(() => readCommand(args)).toThrow(name)
  })

  test("every option is explained", () => {
    for (const option of [
      "quick",
      "only",
      "rounds",
      "soak",
      "history",
      "wrk",
      "accounts",
      "url",
      "key",
      "model",
      "stream",
      "rate",
      "json",
      "html",
    ]) {
      expect(USAGE).toContain(`--${option}`)
    }
  })
})

import { describe, expect, test } from "bun:test"
import { readCommand, USAGE } from "../../bench/command.ts"

describe("the command line", () => {
  test.each([
    [[], { kind: "suite", quick: false, only: [], rounds: null, json: null }],
    [
      ["--quick", "--only", "a", "--only", "b", "--rounds", "3"],
      { kind: "suite", quick: true, only: ["a", "b"], rounds: 3 },
    ],
    [["--json", "a.json"], { kind: "suite", json: "a.json" }],
    [["--history"], { kind: "history", calls: 20_000_000 }],
    [["--history", "--calls", "1000"], { kind: "history", calls: 1_000 }],
    [["--help"], { kind: "help" }],
  ])("%j", (args, command) => {
    expect(readCommand(args)).toMatchObject(command)
  })

  test.each([
    [["--rounds", "0"], "--rounds"],
    [["--slow"], "--slow"],
    [["json-1"], "json-1"],
  ])("%j is refused with the option's name", (args, name) => {
    expect(() => readCommand(args)).toThrow(name)
  })

  test("every option is explained", () => {
    for (const option of ["quick", "only", "rounds", "history", "calls", "json"]) {
      expect(USAGE).toContain(`--${option}`)
    }
  })
})

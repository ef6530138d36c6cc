import { describe, expect, test } from "bun:test"
import { readWorkers } from "../../src/start/setup.ts"

describe("the command line", () => {
  test.each([
    [[], null],
    [["--workers", "1"], 1],
    [["--workers=2"], 2],
    [["--workers", "16"], 16],
  ])("%p", (args, workers) => {
    expect(readWorkers(args)).toBe(workers)
  })

  const RANGE = "--workers: expected an integer from 1 to 16"
  const USAGE = "unknown argument: the only option is --workers N"
  test.each([
    [["--workers", "0"], RANGE],
    [["--workers", "17"], RANGE],
    [["--workers", "02"], RANGE],
    [["--workers", "2.5"], RANGE],
    [["--workers="], RANGE],
    [["--workers=two"], RANGE],
    [["--workers"], USAGE],
    [["--workers", "-1"], USAGE],
    [["--worker", "2"], USAGE],
    [["2"], USAGE],
  ])("%p is refused", (args, sentence) => {
    expect(() => readWorkers(args)).toThrow(new Error(sentence))
  })
})

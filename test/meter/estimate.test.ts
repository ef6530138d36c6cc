import { describe, expect, test } from "bun:test"
import { estimateTokens } from "../../src/meter/output.ts"

describe("D6 tokens estimated from bytes of output", () => {
  const rows: [string, number, number, number][] = [
    ["rule 2: at least one, even of nothing", 0, 4, 1],
    ["at least one of a single byte", 1, 4, 1],
    ["at least one below a token", 3, 4, 1],
    ["one", 4, 4, 1],
    ["rounded down", 7, 4, 1],
    ["two", 8, 4, 2],
    ["many", 4_000_003, 4, 1_000_000],
    ["a model's own bytes_per_token", 9, 3, 3],
    ["a fraction of bytes_per_token", 7, 3.5, 2],
    ["less than a byte per token", 3, 0.5, 6],
    ["more bytes per token than bytes", 9, 1_000, 1],
  ]
  test.each(rows)("%s", (_, bytes, bytes_per_token, tokens) => {
    expect(estimateTokens(bytes, bytes_per_token)).toBe(tokens)
  })
})

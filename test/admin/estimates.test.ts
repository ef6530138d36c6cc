import { describe, expect, test } from "bun:test"
import type { EstimateSums } from "../../src/ledger/queue/estimates.ts"
import { estimateBody } from "../../src/routes/admin/estimates.ts"

/** 100 calls whose output has 3.7 bytes per token and whose prompts have 4, and 900 reasoning tokens each that are not shown. */
const HIDDEN: EstimateSums = {
  model: "m",
  operation: "chat",
  calls: 100,
  prompt_bytes: 400_000,
  prompt_tokens: 100_000,
  output_bytes: 148_000,
  output_tokens: 130_000,
  reasoning_tokens: 90_000,
  reasoning_calls: 100,
  bytes_per_token: 4,
  hidden_output: 0,
}
const PLAIN = { ...HIDDEN, output_tokens: 40_000, reasoning_tokens: 0, reasoning_calls: 0 }
/** The text of the reasoning is in the output. */
const SHOWN = { ...HIDDEN, output_bytes: 481_000 }

describe("D92 what estimates should be", () => {
  const rows: readonly [
    what: string,
    sums: EstimateSums,
    seen: [ratio: number | null, prompt: number | null, hidden: number],
    errors: [output: number | null, prompt: number | null],
    suggestion: string | null,
  ][] = [
    ["right within 10 %", PLAIN, [3.7, 4, 0], [-7.5, 0], null],
    ["another ratio", { ...PLAIN, output_bytes: 120_000 }, [3, 4, 0], [-25, 0], "Set bytes_per_token: 3."],
    [
      "another ratio of the prompt alone, which the output's decides",
      { ...PLAIN, prompt_tokens: 200_000 },
      [3.7, 2, 0],
      [-7.5, -50],
      null,
    ],
    ["hidden reasoning", HIDDEN, [3.7, 4, 900], [-71.5, 0], "Set estimate: { hidden_output: 900 }."],
    [
      "hidden reasoning and another ratio",
      { ...HIDDEN, output_bytes: 120_000, reasoning_tokens: 90_400 },
      [3.03, 4, 904],
      [-76.9, 0],
      "Set bytes_per_token: 3 and estimate: { hidden_output: 900 }.",
    ],
    [
      "hidden reasoning that the settings have",
      { ...HIDDEN, bytes_per_token: 3.7, hidden_output: 950 },
      [3.7, 4, 900],
      [3.8, 8.1],
      null,
    ],
    ["shown reasoning", SHOWN, [3.7, 4, 0], [-7.5, 0], null],
    [
      "shown reasoning that the settings add",
      { ...SHOWN, hidden_output: 900 },
      [3.7, 4, 0],
      [61.7, 0],
      "Remove estimate.hidden_output.",
    ],
    [
      "shown reasoning, where nothing else is output",
      { ...SHOWN, reasoning_tokens: 130_000 },
      [3.7, 4, 0],
      [-7.5, 0],
      null,
    ],
    [
      "embeddings, by their prompts",
      { ...PLAIN, operation: "embeddings", output_bytes: 0, output_tokens: 0, prompt_tokens: 80_000 },
      [null, 5, 0],
      [null, 25],
      "Set bytes_per_token: 5.",
    ],
    [
      "a ratio that the configuration does not take",
      { ...PLAIN, output_bytes: 4_000, prompt_bytes: 10_000 },
      [0.1, 0.1, 0],
      [-97.5, -97.5],
      "Set bytes_per_token: 0.5.",
    ],
    ["too few calls", { ...HIDDEN, calls: 19 }, [3.7, 4, 4737], [-71.5, 0], null],
    [
      "nothing but output of 0 tokens",
      { ...PLAIN, output_tokens: 0, prompt_tokens: 0, prompt_bytes: 0 },
      [null, null, 0],
      [null, null],
      null,
    ],
  ]
  test.each(rows)(
    "%s",
    (_, sums, [bytes_per_token, prompt_bytes_per_token, hidden_output], errors, suggestion) => {
      const body = estimateBody(sums)
      expect(body.seen).toEqual({ bytes_per_token, prompt_bytes_per_token, hidden_output })
      expect([body.error_percent.output, body.error_percent.prompt]).toEqual(errors)
      expect(body.suggestion).toBe(suggestion)
      expect(body.configured).toEqual({
        bytes_per_token: sums.bytes_per_token,
        hidden_output: sums.hidden_output,
      })
    },
  )
})

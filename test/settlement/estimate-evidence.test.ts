import { describe, expect, test } from "bun:test"
import type { Bucket } from "../../src/kinds.ts"
import type { JsonEvidence } from "../../src/meter/reading.ts"
import type { Verdict } from "../../src/settlement/decide.ts"
import { estimateEvidence } from "../../src/settlement/settle.ts"
import { type Settled, settledBy } from "./terms.ts"

function evidence(output_bytes: number): JsonEvidence {
  return {
    shape: "json",
    ending: "completed",
    body: "object",
    usage: { state: "missing" },
    output_bytes,
    too_large: false,
  }
}

/** Settled by usage with 100 prompt and 50 completion tokens, of which the buckets are parts. */
function settled(buckets: Partial<Record<Bucket, number>> = {}, changes: Partial<Settled> = {}): Verdict {
  const reported = { prompt_tokens: 100, cached_tokens: 40, completion_tokens: 50, buckets }
  return settledBy({ reported, ...changes })
}

const REPORTED = { prompt_tokens: 100, output_bytes: 120, output_tokens: 50, reasoning_tokens: 0 }

describe("D92 what a call says about estimates", () => {
  const counted: readonly [string, Verdict, object][] = [
    ["its bytes and its tokens", settled(), {}],
    ["reasoning, which is part of the output", settled({ reasoning: 20 }), { reasoning_tokens: 20 }],
    [
      "audio is no text",
      settled({ reasoning: 20, audio_output: 10, audio_input: 30 }),
      { reasoning_tokens: 20, output_tokens: 40 },
    ],
    [
      "parts that overlap are not more than the whole",
      settled({ reasoning: 45, audio_output: 10 }),
      { reasoning_tokens: 40, output_tokens: 40 },
    ],
    ["more audio than output", settled({ audio_output: 60 }), { output_tokens: 0 }],
  ]
  test.each(counted)("%s", (_, verdict, expected) => {
    expect(estimateEvidence(evidence(120), verdict, true)).toEqual({ ...REPORTED, ...expected })
  })

  const uncounted: readonly [string, Verdict, number][] = [
    ["a call without output", settled(), 0],
    ["partial usage", settled({}, { basis: "partial" }), 120],
    ["an estimate", settled({}, { basis: "estimate", reported: null }), 120],
    ["implausible usage, which is charged at its bound", settled({}, { notes: ["usage_implausible"] }), 120],
    ["a call that failed", settled({}, { failure: "client_left" }), 120],
    ["a released call", { outcome: "released", failure: "no_output", notes: [] }, 0],
  ]
  test.each(uncounted)("%s says nothing", (_, verdict, output_bytes) => {
    expect(estimateEvidence(evidence(output_bytes), verdict, true)).toBeNull()
  })

  test("embeddings have no output, and say something about prompts", () => {
    const reported = { prompt_tokens: 100, cached_tokens: 0, completion_tokens: 0 }
    expect(estimateEvidence(evidence(0), settled({}, { reported }), false)).toEqual({
      ...REPORTED,
      output_bytes: 0,
      output_tokens: 0,
    })
  })
})

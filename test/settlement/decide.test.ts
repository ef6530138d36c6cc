import { describe, expect, test } from "bun:test"
import type { JsonEvidence, StreamEvidence } from "../../src/meter/reading.ts"
import { decide, type EstimateTerms, type Verdict } from "../../src/settlement/decide.ts"
import { type Ending, endings, type Failure, type Note } from "../../src/wire/call.ts"
import type { UsageReading } from "../../src/wire/usage.ts"
import { settledBy, terms } from "./terms.ts"

const missing: UsageReading = { state: "missing" }
const invalid: UsageReading = { state: "invalid" }
function valid(prompt_tokens: number, completion_tokens: number, notes: Note[] = []): UsageReading {
  return { state: "valid", usage: { prompt_tokens, cached_tokens: 0, completion_tokens }, notes }
}

function json(evidence: Partial<JsonEvidence>): JsonEvidence {
  return {
    shape: "json",
    ending: "completed",
    body: "object",
    usage: missing,
    output_bytes: 0,
    too_large: false,
    ...evidence,
  }
}
function stream(ending: Ending, evidence: Partial<StreamEvidence> = {}): StreamEvidence {
  return {
    shape: "stream",
    ending,
    usage: missing,
    usage_final: false,
    output_bytes: 0,
    output_bytes_after_usage: 0,
    error: false,
    ...evidence,
  }
}

/** Charged by usage of `reported` [prompt, completion] tokens, and `later` estimated ones on top. */
function reported(
  basis: "usage" | "partial",
  [prompt_tokens, completion_tokens]: [number, number],
  failure: Failure | null = null,
  later = 0,
  notes: Note[] = [],
): Verdict {
  return settledBy({
    basis,
    reported: { prompt_tokens, cached_tokens: 0, completion_tokens },
    estimated: { prompt_tokens: 0, completion_tokens: later },
    failure,
    notes,
  })
}
function estimated(completion_tokens: number, failure: Failure, notes: Note[] = []): Verdict {
  return settledBy({ basis: "estimate", estimated: { prompt_tokens: 0, completion_tokens }, failure, notes })
}
function released(failure: Failure, notes: Note[] = []): Verdict {
  return { outcome: "released", failure, notes }
}

const some = { output_bytes: 12 }
const blank = { body: "blank" } as const
const malformed = { body: "malformed" } as const
const error = { body: "error" } as const
const final = { usage: valid(9, 2), usage_final: true }
const partial = { usage: valid(9, 2) }
const placeholder: Note[] = ["usage_placeholder"]
const withLater = (output_bytes: number, output_bytes_after_usage: number) => ({
  ...partial,
  output_bytes,
  output_bytes_after_usage,
})
const zero = { usage: valid(0, 0), usage_final: true }

describe("a JSON answer", () => {
  const rows: [string, Partial<JsonEvidence>, Verdict][] = [
    ["rule 1 usage", { usage: valid(9, 2) }, reported("usage", [9, 2])],
    ["rule 1 usage, whatever the output", { ...partial, output_bytes: 9_000 }, reported("usage", [9, 2])],
    ["rule 1, D2 zero completion is as reported", { usage: valid(9, 0), ...some }, reported("usage", [9, 0])],
    ["rule 1, D2 0/0 without output", { usage: valid(0, 0) }, reported("usage", [0, 0])],
    [
      "rule 1, D3 notes of the usage",
      { usage: valid(9, 2, ["cached_clamped"]) },
      reported("usage", [9, 2], null, 0, ["cached_clamped"]),
    ],
    ["rule 1, D9 drained", { ...partial, ending: "client_left" }, reported("usage", [9, 2], "client_left")],

    [
      "rule 1, D5 usage of an answer too large",
      { ...partial, too_large: true },
      reported("usage", [9, 2], "upstream_error", 0, ["response_too_large"]),
    ],
    [
      "rule 2, D5 output of an answer too large",
      { ...some, too_large: true },
      estimated(3, "usage_missing", ["response_too_large"]),
    ],
    ["rule 2 an empty object is one token", {}, estimated(1, "usage_missing")],
    ["rule 2 no usage", some, estimated(3, "usage_missing")],
    ["rule 2 invalid usage", { usage: invalid, ...some }, estimated(3, "usage_invalid")],
    ["rule 2 invalid usage without output", { usage: invalid }, estimated(1, "usage_invalid")],
    ["rule 2, D2 a placeholder", { usage: valid(0, 0), ...some }, estimated(3, "usage_invalid", placeholder)],
    ["rule 2, D9 drained", { ...some, ending: "client_left" }, estimated(3, "client_left")],

    ["rule 3 blank", blank, released("usage_missing")],
    ["rule 3 malformed", malformed, released("usage_invalid")],
    ["rule 3, D5 cut with nothing", { ...blank, ending: "upstream_lost" }, released("usage_missing")],
    ["rule 3, D5 cut with something", { ...malformed, ending: "upstream_lost" }, released("usage_invalid")],
    ["rule 3, D31 too late, nothing", { ...blank, ending: "deadline" }, released("upstream_timeout")],
    ["rule 3, D31 too late, something", { ...malformed, ending: "deadline" }, released("upstream_timeout")],
    ["rule 3, D28 silence", { ...blank, ending: "upstream_silent" }, released("upstream_timeout")],
    ["rule 3, D28 the client left before it", { ...blank, ending: "client_left" }, released("client_left")],
    [
      "rule 3, D28 the client left during it",
      { ...malformed, ending: "client_left" },
      released("client_left"),
    ],
    ["rule 3, D28 cut by a shutdown", { ...blank, ending: "gateway_stopped" }, released("no_output")],
    ["D10 an error", error, released("upstream_error")],
    ["D10 an error, the client gone", { ...error, ending: "client_left" }, released("upstream_error")],
  ]
  test.each(rows)("%s", (_, evidence, verdict) => expect(decide(json(evidence), terms)).toEqual(verdict))
})

describe("a stream that completed", () => {
  const rows: [string, Partial<StreamEvidence>, Verdict][] = [
    ["rule 1 final usage", { ...final, ...some }, reported("usage", [9, 2])],
    ["rule 1, D8 the last valid usage as it is", { ...partial, ...some }, reported("usage", [9, 2])],
    [
      "rule 4, D8 and the text that came after it",
      withLater(12, 8),
      reported("partial", [9, 2], "usage_missing", 2),
    ],
    ["rule 1 usage without output", final, reported("usage", [9, 2])],
    ["rule 1, D2 zero completion is as reported", { usage: valid(9, 0), ...some }, reported("usage", [9, 0])],
    ["rule 1, D2 0/0 without output", zero, reported("usage", [0, 0])],
    [
      "rule 1, D3 notes of the usage",
      { usage: valid(9, 2, ["cached_malformed"]) },
      reported("usage", [9, 2], null, 0, ["cached_malformed"]),
    ],

    ["rule 4 no usage", some, estimated(3, "usage_missing")],
    ["rule 4 a byte is a token", { output_bytes: 1 }, estimated(1, "usage_missing")],
    ["rule 4 invalid usage", { usage: invalid, ...some }, estimated(3, "usage_invalid")],
    ["rule 4, D2 a placeholder", { ...zero, ...some }, estimated(3, "usage_invalid", placeholder)],

    ["rule 6 nothing", {}, released("no_output")],
    ["rule 6, D28 invalid usage without output", { usage: invalid }, released("usage_invalid")],
  ]
  test.each(rows)("%s", (_, evidence, verdict) => {
    expect(decide(stream("completed", evidence), terms)).toEqual(verdict)
  })
})

/** With nothing to charge, the most specific cause. */
const causes: [ending: Exclude<Ending, "completed">, nothing: Failure, invalid_usage: Failure][] = [
  ["upstream_lost", "no_output", "usage_invalid"],
  ["upstream_silent", "upstream_timeout", "upstream_timeout"],
  ["deadline", "upstream_timeout", "upstream_timeout"],
  ["client_left", "client_left", "client_left"],
  ["client_stalled", "no_output", "usage_invalid"],
  ["gateway_stopped", "no_output", "usage_invalid"],
  ["gateway_lost", "no_output", "usage_invalid"],
]

describe.each(causes)("a stream that ended by %s", (ending, nothing, invalid_usage) => {
  const later = withLater(20, 8)
  const rows: [string, Partial<StreamEvidence>, Verdict][] = [
    ["rule 5 final usage, no later text", { ...final, ...some }, reported("usage", [9, 2], ending)],
    ["rule 5 final usage alone", final, reported("usage", [9, 2], ending)],
    ["rule 5 usage that was not final", { ...partial, ...some }, reported("partial", [9, 2], ending)],
    ["rule 5 usage and later text", later, reported("partial", [9, 2], ending, 2)],
    [
      "rule 5 final usage and later text",
      { ...later, usage_final: true },
      reported("partial", [9, 2], ending, 2),
    ],
    ["rule 5 a later byte is a token", withLater(13, 1), reported("partial", [9, 2], ending, 1)],
    [
      "rule 5 notes of the usage",
      { usage: valid(9, 2, ["cached_clamped"]) },
      reported("partial", [9, 2], ending, 0, ["cached_clamped"]),
    ],
    ["rule 5 output", some, estimated(3, ending)],
    ["rule 5 output and invalid usage", { usage: invalid, ...some }, estimated(3, ending)],
    ["rule 5, D2 output and a placeholder", { ...zero, ...some }, estimated(3, ending, placeholder)],
    [
      "rule 5, D2 output after a placeholder",
      { ...zero, output_bytes: 12, output_bytes_after_usage: 12 },
      estimated(3, ending, placeholder),
    ],
    ["rule 5, D2 0/0 without output", { usage: valid(0, 0) }, reported("partial", [0, 0], ending)],
    ["rule 6 nothing", {}, released(nothing)],
    ["rule 6 invalid usage", { usage: invalid }, released(invalid_usage)],
    ["rule 6, D10, D28 an error event or a reset", { error: true }, released("upstream_error")],
  ]
  test.each(rows)("%s", (_, evidence, verdict) => {
    expect(decide(stream(ending, evidence), terms)).toEqual(verdict)
  })
})

test("every ending but `completed` has its cause above", () => {
  expect(causes.map(([ending]) => ending).sort()).toEqual(
    endings.filter((word) => word !== "completed").sort(),
  )
})

describe("D6 what an estimate rests on", () => {
  const withPrompt = {
    bytes_per_token: 3,
    prompt_tokens_estimate: 50,
    estimate_prompt: "always",
    estimate_output: true,
  } as const
  const rows: [string, JsonEvidence | StreamEvidence, number, number][] = [
    ["rule 2 output and prompt", json(some), 50, 4],
    ["rule 2 an empty object and its prompt", json({}), 50, 1],
    ["rule 4 output and prompt", stream("completed", some), 50, 4],
    ["rule 5 output and prompt", stream("upstream_lost", some), 50, 4],
    ["rule 1 usage: no estimate", json({ usage: valid(9, 2), ...some }), 0, 0],
    ["rule 1 usage of a stream: no estimate", stream("completed", { ...final, ...some }), 0, 0],
    [
      "rule 5 usage says the prompt: only the later text is estimated",
      stream("client_left", withLater(12, 7)),
      0,
      2,
    ],
  ]
  test.each(rows)("%s", (_, evidence, prompt_tokens, completion_tokens) => {
    expect(decide(evidence, withPrompt)).toMatchObject({ estimated: { prompt_tokens, completion_tokens } })
  })

  const charges_prompt: [string, JsonEvidence | StreamEvidence, boolean][] = [
    ["a client that left its stream", stream("client_left", some), true],
    ["a client that stalled", stream("client_stalled", some), true],
    ["a stream that the provider broke", stream("upstream_lost", some), false],
    ["a stream that the gateway cut", stream("gateway_stopped", some), false],
    [
      "a stream that ended at a limit of its size",
      stream("upstream_lost", { ...some, too_large: true }),
      true,
    ],
    ["a JSON answer over the limit", json({ ...some, too_large: true }), false],
    ["a whole stream", stream("completed", some), false],
    ["a JSON answer whose client left", json({ ...some, ending: "client_left" }), false],
  ]
  test.each(charges_prompt)("the prompt is charged by client_cut: %s, %p", (_, evidence, charged) => {
    const tokens = (estimate_prompt: EstimateTerms["estimate_prompt"]) => {
      const verdict = decide(evidence, { ...withPrompt, estimate_prompt })
      return verdict.outcome === "settled" ? verdict.estimated.prompt_tokens : null
    }
    expect([tokens("never"), tokens("client_cut"), tokens("always")]).toEqual([0, charged ? 50 : 0, 50])
  })
})

describe("D6 unseen reasoning", () => {
  const told = { ...terms, hidden_output_tokens: 500 }
  const completion = (evidence: StreamEvidence | JsonEvidence) => {
    const verdict = decide(evidence, told)
    return verdict.outcome === "settled" ? verdict.estimated.completion_tokens : null
  }
  test.each(endings.map((ending) => [ending]))("a stream that ended as %s", (ending) => {
    const is_cut_by_client = ending === "client_left" || ending === "client_stalled"
    expect(completion(stream(ending, some))).toBe(is_cut_by_client ? 503 : 3)
  })
  test("beside usage of the prompt alone, as a messages stream begins (D64)", () => {
    expect(completion(stream("client_left", { usage: valid(9, 0) }))).toBe(500)
    expect(completion(stream("upstream_lost", { usage: valid(9, 0) }))).toBe(0)
    expect(completion(stream("upstream_lost", { ...some, too_large: true }))).toBe(503)
  })
  test("rule 6: none where there was no output, and none beside usage", () => {
    expect(completion(stream("client_left"))).toBeNull()
    expect(completion(stream("client_left", partial))).toBe(0)
    expect(completion(json({ ending: "client_left", ...some }))).toBe(3)
  })
})

import { describe, expect, test } from "bun:test"
import type { StreamEvidence } from "../../src/meter/reading.ts"
import { decide } from "../../src/settlement/decide.ts"
import { priceVerdict } from "../../src/settlement/price.ts"
import type { Outcome } from "../fixtures/stream.ts"
import { streams } from "../fixtures/streams.ts"
import { everyCut } from "../meter/cuts.ts"
import { follow } from "../meter/follow.ts"
import { priceOf } from "../support/price.ts"
import { terms } from "./terms.ts"

const price = priceOf(250_000n, 25_000n, 2_000_000n)
const AMOUNT_NANO = 10_000_000n

/** In the words of the fixtures. */
function outcomeOf(evidence: StreamEvidence): Outcome {
  const verdict = decide(evidence, terms)
  const { usage, notes } = priceVerdict(verdict, price, AMOUNT_NANO)
  const noted = notes.length === 0 ? {} : { notes: [...notes] }
  if (usage === null || verdict.outcome === "released")
    return { released: verdict.failure ?? "internal_error", ...noted }
  return {
    basis: verdict.basis,
    usage: [usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens],
    ...(verdict.failure === null ? {} : { failure: verdict.failure }),
    ...noted,
  }
}

describe("a provider's stream means the same at every cut", () => {
  test.each(streams.map((stream) => [stream.name, stream] as const))("%s", (_, stream) => {
    const evidence = follow([stream.bytes], undefined, stream.n)
    expect(evidence.ending).toBe(stream.ending)
    expect(outcomeOf(evidence)).toEqual(stream.outcome)
    for (const chunks of everyCut(stream.bytes)) {
      const cut = follow(chunks, undefined, stream.n)
      if (!Bun.deepEquals(cut, evidence)) expect(cut).toEqual(evidence)
    }
  })
})

import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import type { StreamEvidence } from "../../src/meter/reading.ts"
import { Framer } from "../../src/meter/sse.ts"
import { decide } from "../../src/settlement/decide.ts"
import { type Priced, priceVerdict } from "../../src/settlement/price.ts"
import { endings } from "../../src/wire/call.ts"
import { finish, plain, text, usageOnly, used } from "../fixtures/chunks.ts"
import { streams } from "../fixtures/streams.ts"
import { bytesOf } from "../meter/cuts.ts"
import { follow } from "../meter/follow.ts"
import { priceOf } from "../support/price.ts"
import { terms } from "./terms.ts"

/** What holds from a provider's bytes to the charge, whatever the bytes. */

const price = priceOf(250_000n, 25_000n, 2_000_000n)
const AMOUNT_NANO = 1_000_000n

function settle(evidence: Parameters<typeof decide>[0]): Priced {
  return priceVerdict(decide(evidence, terms), price, AMOUNT_NANO)
}

describe("rule 4: comments and empty events are no evidence, wherever they stand", () => {
  const idle = fc.constantFrom(
    ": ping\n\n",
    ":\r\n\r\n",
    "\n",
    "data:\n\n",
    "data: \r\r",
    "event: ping\n\n",
    "id: 1\n\n",
  )

  test.each(streams.map((stream) => [stream.name, stream.bytes] as const))("%s", (_, bytes) => {
    const framer = new Framer(bytes.byteLength)
    const events = [...framer.feed(bytes)].map((event) => Buffer.concat([...event.parts]))
    const rest = bytes.subarray(bytes.byteLength - framer.pending_bytes)
    const evidence = follow([bytes])
    const inserted = fc.array(fc.tuple(fc.nat(events.length), idle), { minLength: 1, maxLength: 6 })
    fc.assert(
      fc.property(inserted, (inserted) => {
        // A stream's BOM stays in front.
        const pieces: Uint8Array[] = [...events, rest]
        for (const [place, text] of inserted) pieces.splice(Math.max(1, place), 0, bytesOf(text))
        const last = pieces.indexOf(rest)
        pieces.push(...pieces.splice(last, 1))
        expect(follow(pieces)).toEqual(evidence)
      }),
      { numRuns: 20 },
    )
  })
})

describe("rule 5: the longer a stream ran, the more it costs, until its final usage", () => {
  const charges = (bytes: Uint8Array) =>
    Array.from(
      { length: bytes.byteLength + 1 },
      (_, at) => settle(follow([bytes.subarray(0, at)], "client_left")).charge_nano,
    )
  const falls = (charges: readonly bigint[]) =>
    charges.findIndex((nano, at) => nano < (charges[at - 1] ?? 0n))

  test("cut at every byte", () => {
    const beforeUsage = plain.slice(0, plain.indexOf(usageOnly(used(9, 2))))
    for (const stream of [
      beforeUsage,
      beforeUsage.replaceAll("\n", "\r\n"),
      text("漢字😀") + text("é") + finish(),
    ]) {
      const all = charges(bytesOf(stream))
      expect(falls(all)).toBe(-1)
      expect(all.at(-1)).toBeGreaterThan(0n)
    }
  })

  test("of any output", () => {
    const words = fc.array(fc.string({ unit: "grapheme", maxLength: 12 }), { maxLength: 6 })
    fc.assert(
      fc.property(words, (words) => {
        expect(falls(charges(bytesOf(words.map((word) => text(word)).join(""))))).toBe(-1)
      }),
      { numRuns: 30 },
    )
  })
})

test("D8: how a stream ended changes what is recorded, not whether it is charged", () => {
  const charged = (evidence: StreamEvidence) => decide(evidence, terms).outcome
  for (const { bytes } of streams) {
    const outcomes = new Set(endings.map((ending) => charged(follow([bytes], ending))))
    expect(outcomes.size).toBe(1)
  }
})

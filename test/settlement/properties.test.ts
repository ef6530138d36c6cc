import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { readAnswer } from "../../src/meter/json-reading.ts"
import type { StreamEvidence } from "../../src/meter/reading.ts"
import { Framer } from "../../src/meter/sse.ts"
import { chat } from "../../src/operations/chat.ts"
import { decide } from "../../src/settlement/decide.ts"
import { type Priced, priceVerdict } from "../../src/settlement/price.ts"
import { ANY_USAGE } from "../../src/usage/reading.ts"
import { endings } from "../../src/wire/call.ts"
import { DONE, finish, plain, role, text, usageOnly, used } from "../fixtures/chunks.ts"
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

function expectSound({ charge_nano, usage }: Priced): void {
  expect(charge_nano >= 0n).toBe(true)
  if (usage === null) return
  for (const tokens of [usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens]) {
    expect(Number.isSafeInteger(tokens) && tokens >= 0).toBe(true)
  }
  expect(usage.cached_tokens).toBeLessThanOrEqual(usage.prompt_tokens)
}

describe("whatever a provider sends is settled soundly", () => {
  const ending = fc.constantFrom(...endings)
  const value = fc.oneof(fc.jsonValue(), fc.integer(), fc.constantFrom(0, -1, 1e9, 1e300, "9", null))
  const payload = fc.record(
    {
      choices: fc.oneof(
        value,
        fc.array(fc.record({ index: value, delta: fc.record({ content: value }), finish_reason: value })),
      ),
      usage: fc.oneof(value, fc.record({ prompt_tokens: value, completion_tokens: value })),
      error: fc.option(value, { freq: 8 }),
    },
    { requiredKeys: [] },
  )
  const event = fc.oneof(
    payload.map((fields) => `data: ${JSON.stringify(fields)}\n\n`),
    fc.constantFrom(
      role,
      text("hello"),
      finish(),
      usageOnly(used(9, 2)),
      usageOnly(used(0, 0)),
      DONE,
      ": ping\n\n",
    ),
    fc.string().map((line) => `data: ${line}\n`),
  )
  const body = fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.array(event, { maxLength: 12 }).map((events) => bytesOf(events.join(""))),
  )

  test("as a stream", () => {
    fc.assert(
      fc.property(body, ending, (bytes, ending) => expectSound(settle(follow([bytes], ending)))),
      { numRuns: 200 },
    )
  })

  test("as a JSON answer", async () => {
    const json = fc.oneof(
      body,
      payload.map((fields) => bytesOf(JSON.stringify(fields))),
    )
    await fc.assert(
      fc.asyncProperty(json, ending, fc.boolean(), async (bytes, ending, cut) => {
        const body = { bytes, cut, large: null }
        expectSound(settle(await readAnswer(chat.json, body, ending, ANY_USAGE)))
      }),
      { numRuns: 200 },
    )
  })
})

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

import { expect, test } from "bun:test"
import fc from "fast-check"
import { ConfigError } from "../../src/config/config.ts"
import { loadConfig } from "../../src/config/load.ts"
import { lineOf, parseLine } from "../../src/ledger/queue/spool.ts"
import { exampleConfiguration } from "../docs/blocks.ts"
import { FUZZ_MS, fuzzing } from "./fuzz-cases.ts"
import { spoiledValue } from "./hostile-answers.ts"
import { damaged } from "./noise.ts"

/** A start that reads its configuration for longer hangs. */
const HANG_MS = 2_000

const example = exampleConfiguration()
const env = Object.fromEntries(
  [...example.matchAll(/\$\{(\w+)\}/g)].map(([, name = ""]) => [name, "sk-canary"]),
)
const sources = { env, readFile: () => "sk-canary" }

test(
  "any configuration is read, or refused with the place of each fault and without a secret",
  () => {
    let read = 0
    const changed = spoiledValue(Bun.YAML.parse(example)).map((value) => JSON.stringify(value))
    const torn = damaged(fc.constant(Buffer.from(example))).map(String)
    fc.assert(
      fc.property(fc.oneof(changed, torn), (text) => {
        const began_ms = performance.now()
        try {
          loadConfig(text, sources)
          read += 1
        } catch (error) {
          if (!(error instanceof ConfigError)) throw error
          expect(error.faults.length).toBeGreaterThan(0)
          expect(error.message).not.toContain("sk-canary")
        }
        expect(performance.now() - began_ms).toBeLessThan(HANG_MS)
      }),
      fuzzing(1),
    )
    expect(read).toBeGreaterThan(0)
  },
  FUZZ_MS,
)

const spooled = lineOf({
  account_id: "01a1fdba-bbb4-7000-889f-26dc4478d767",
  end: {
    id: "01a1fdba-bbb4-7000-889f-26dc4478d768",
    outcome: "settled",
    charge_nano: 9_000n,
    basis: "usage",
    ending: "completed",
    failure: null,
    notes: ["overage"],
    usage: { prompt_tokens: 10, cached_tokens: 2, completion_tokens: 5 },
    details: { unread: ["citation_tokens"], unexplained_tokens: 3 },
    terms_id: 1,
    ttft_ms: 12,
    duration_ms: 40,
    freed_key_hash: null,
  },
  hold: null,
})

test(
  "D27 any line of a spool is an end that can be written, or is kept as one that cannot be read",
  () => {
    const changed = spoiledValue(JSON.parse(spooled)).map((value) => JSON.stringify(value))
    const torn = damaged(fc.constant(Buffer.from(spooled))).map(String)
    fc.assert(
      fc.property(fc.oneof(changed, torn), (text) => {
        const parsed = parseLine(text)
        if (parsed === null || "attempt" in parsed) return
        const { end, account_id } = parsed
        expect(end.charge_nano).toBeGreaterThanOrEqual(0n)
        expect([typeof account_id, typeof end.duration_ms]).toEqual(["string", "number"])
        expect(parseLine(lineOf(parsed))).toEqual(parsed)
      }),
      fuzzing(1),
    )
  },
  FUZZ_MS,
)

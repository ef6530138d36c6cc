import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import fc from "fast-check"

/** No pattern of the product may take long over a text: each is tried with texts that are made against it. */

const ROOT = join(import.meta.dir, "../..")

/** A regular expression between slashes, where one can begin; and one that is a text, as in a schema. */
const LITERAL =
  /(?<=(?:^|[=(,:;?!&|[{]|\breturn)\s*)\/(?![/*])((?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+)\/([dgimsuvy]*)(?![\w/])/gm
const TEXT = /(?:\bpattern: |\b[A-Z]+ = )("\^(?:[^"\\\n]|\\.)*")/g

function patternsOf(path: string): RegExp[] {
  const code = readFileSync(join(ROOT, path), "utf8").replace(/^\s*(?:\/\/|\/?\*).*$/gm, "")
  const literals = [...code.matchAll(LITERAL)].map(([, source = "", flags = ""]) => [source, flags] as const)
  const texts = [...code.matchAll(TEXT)].map(([, text = ""]) => [String(JSON.parse(text)), ""] as const)
  return [...literals, ...texts].map(([source, flags]) => new RegExp(source, flags.replace("g", "")))
}

const files = [...new Bun.Glob("src/**/*.ts").scanSync({ cwd: ROOT })]
const patterns = files.sort().flatMap((path) => patternsOf(path).map((pattern) => [path, pattern] as const))

/** Enough to see a square; what doubles with each character shows long before. */
const LENGTHS = [20, 25, 27, 400, 40_000]
/** What is linear takes less than a fiftieth of it; a square takes five times as long, on a fast machine. */
const SLOW_MS = 50
const SEED = 20_261_121
const ATTEMPTS = 25

/** The best of so many rounds. */
function time_ms(pattern: RegExp, text: string, rounds: number): number {
  let best_ms = Number.POSITIVE_INFINITY
  for (let round = 0; round < rounds && best_ms > SLOW_MS; round++) {
    const began_ms = performance.now()
    pattern.lastIndex = 0
    pattern.test(text)
    best_ms = Math.min(best_ms, performance.now() - began_ms)
  }
  return best_ms
}

/** Texts that begin as the pattern wants, go on with a piece of that again and again, and end as it does not want. */
function attacks(pattern: RegExp): fc.Arbitrary<(length: number) => string> {
  // What only forbids is left out: more texts are made then, not fewer.
  const source = pattern.source.replace(/\(\?<?[!=](?:[^()]|\([^()]*\))*\)|\\b/g, "")
  const open = new RegExp(source, pattern.flags.replace(/[iy]/g, ""))
  return fc
    .tuple(fc.stringMatching(open), fc.nat(), fc.nat(), fc.constantFrom("\0", "!", " ", "a", ""))
    .map(([sample, from, to, end]) => {
      const [start, stop] = [from % (sample.length + 1), to % (sample.length + 1)].sort((a, b) => a - b)
      const piece = sample.slice(start, stop) || sample.slice(-1) || " "
      return (length) => sample.slice(0, stop) + piece.repeat(Math.ceil(length / piece.length)) + end
    })
}

/** Three rounds: a busy machine is no slow pattern. */
function slowAt(pattern: RegExp, rounds = 3): number | null {
  for (const attack of fc.sample(attacks(pattern), { seed: SEED, numRuns: ATTEMPTS })) {
    for (const length of LENGTHS) if (time_ms(pattern, attack(length), rounds) > SLOW_MS) return length
  }
  return null
}

test.each([[/^(a+)+$/], [/^a*a*b$/]])("a pattern that can be made slow is found: %p", (pattern) => {
  expect(slowAt(pattern, 1)).not.toBeNull()
})

describe("no pattern of the product can be made slow", () => {
  test("they are found", () => {
    const sources = new Set(patterns.map(([, { source }]) => source))
    expect(sources.size).toBeGreaterThan(40)
    for (const known of [
      "^[A-Za-z_][A-Za-z0-9_]*$",
      "^-?\\d{1,9}(?:\\.\\d{1,9})?$",
      "^\\d{4}-\\d{2}-\\d{2}$",
    ]) {
      expect([...sources]).toContain(known)
    }
  })

  /** Its text is never longer than the digits of a price's fraction. */
  const BOUNDED: readonly string[] = ["0+$"]
  const free = patterns.filter(([, { source }]) => !BOUNDED.includes(source))
  test.each(free)("%s %p", (_, pattern) => {
    expect(slowAt(pattern)).toBeNull()
  })

  test("none is put together from what somebody sent", () => {
    const made = files.filter((path) =>
      /\bnew RegExp\(|\bRegExp\(/.test(readFileSync(join(ROOT, path), "utf8")),
    )
    // A price list that an operator downloaded brings patterns of its own, for one run of a command.
    expect(made).toEqual(["src/cli/price-list.ts"])
  })
})

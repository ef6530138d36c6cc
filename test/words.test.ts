import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"

/** The part of the style sheet in CONTRIBUTING.md that a program can check. */

const ROOT = join(import.meta.dir, "..")

const RULES: readonly (readonly [use: string, pattern: RegExp])[] = [
  ["no longer", /\bany more\b/],
  ["current", /\bthe present\b/],
  ["immediately, or together", /\bat once\b/],
  ["meanwhile, or between them", /\bin between\b/],
  ["now", /\bat the moment\b/],
  ["the one who does it", /\bwhoever\b/i],
  ["search, find or check, with the one who does it", /\blooked for\b/],
  ["is, means or covers", /\b(?:stands for|stands under|come together|comes together)\b/],
]

/** A clause where a noun, a verb or "True if" should begin. */
const CLAUSE = /(?:\/\*\*?|^\s*\/\/|^\s*\*) (?:What|Whether|How|Which|Whose|When|Where) /

const code = filesIn(["src/**/*.ts"]).map(({ path, text }) => ({
  path,
  text: text
    .split("\n")
    .map((line) => /(?:\/\*|^\s*\*|\/\/ ).*/.exec(line)?.[0] ?? "")
    .join("\n"),
}))
const pages = filesIn(["docs/*.md", "*.md"]).filter(
  ({ path }) => path !== "docs/specification.md" && path !== "CONTRIBUTING.md",
)

describe("the style sheet", () => {
  test.each(RULES)("pages say: %s", (_use, pattern) => {
    expect(found(pages, pattern)).toEqual([])
  })
  test.each(RULES)("comments say: %s", (_use, pattern) => {
    expect(found(code, pattern)).toEqual([])
  })
  test("comments begin with a noun, a verb or True if", () => {
    expect(found(code, CLAUSE)).toEqual([])
  })
})

function filesIn(patterns: readonly string[]): { path: string; text: string }[] {
  return patterns
    .flatMap((pattern) => [...new Bun.Glob(pattern).scanSync({ cwd: ROOT })])
    .map((path) => ({ path, text: readFileSync(join(ROOT, path), "utf8") }))
}

/** `path:line: text` of each line that has the pattern. */
function found(files: readonly { path: string; text: string }[], pattern: RegExp): string[] {
  return files.flatMap(({ path, text }) =>
    text.split("\n").flatMap((line, at) => (pattern.test(line) ? [`${path}:${at + 1}: ${line.trim()}`] : [])),
  )
}

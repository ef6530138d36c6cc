import { describe, expect, test } from "bun:test"
import { filesMatching, textOf } from "./support/repository.ts"

/** The part of the style sheet in CONTRIBUTING.md that a program can check. */

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

const code = filesIn("src/**/*.ts").map(({ path, text }) => ({
  path,
  text: text
    .split("\n")
    .map((line) => /(?:\/\*|^\s*\*|\/\/ ).*/.exec(line)?.[0] ?? "")
    .join("\n"),
}))
const pages = [...filesIn("docs/*.md"), ...filesIn("*.md")].filter(
  ({ path }) => path !== "docs/specification.md" && path !== "CONTRIBUTING.md",
)

describe("the style sheet", () => {
  test("is compared with all pages and all files of the product", () => {
    expect(pages.length).toBeGreaterThan(15)
    expect(code.length).toBeGreaterThan(200)
  })
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

function filesIn(pattern: string): { path: string; text: string }[] {
  return filesMatching(pattern).map((path) => ({ path, text: textOf(path) }))
}

/** `path:line: text` of each line that has the pattern. */
function found(files: readonly { path: string; text: string }[], pattern: RegExp): string[] {
  return files.flatMap(({ path, text }) =>
    text.split("\n").flatMap((line, at) => (pattern.test(line) ? [`${path}:${at + 1}: ${line.trim()}`] : [])),
  )
}

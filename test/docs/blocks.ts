import { isObject } from "../../src/wire/usage.ts"
import { filesMatching, textOf } from "../support/repository.ts"

export interface Block {
  /** `docs/billing.md` */
  readonly page: string
  /** Of its first line, from 1. */
  readonly line: number
  readonly language: string
  readonly text: string
  /** The heading above it. */
  readonly section: string
}

export const pages: readonly string[] = ["README.md", ...filesMatching("docs/*.md")]

export const CONFIGURATION_PAGE = "docs/configuration.md"

/** The configuration that the page shows in full. */
export function exampleConfiguration(): string {
  const [block] = blocksOf(CONFIGURATION_PAGE).filter(({ language }) => language === "yaml")
  if (block === undefined) throw new Error(`${CONFIGURATION_PAGE} shows no configuration`)
  return block.text
}

export function blocksOf(page: string): Block[] {
  const blocks: Block[] = []
  let section = ""
  let open: { line: number; language: string; lines: string[] } | null = null
  for (const [at, line] of textOf(page).split("\n").entries()) {
    const fence = /^```(\w*)\s*$/.exec(line)
    if (open !== null && fence !== null) {
      if (open.language !== "") {
        const { language, lines } = open
        blocks.push({ page, line: open.line, language, section, text: `${lines.join("\n")}\n` })
      }
      open = null
    } else if (open !== null) open.lines.push(line)
    else if (fence !== null) open = { line: at + 2, language: fence[1] ?? "", lines: [] }
    else section = /^#+ (.*)$/.exec(line)?.[1] ?? section
  }
  return blocks
}

export function blocksUnder(page: string, section: string, language: string): Block[] {
  return blocksOf(page).filter((block) => block.section === section && block.language === language)
}

/** A value of a file that must be a mapping. */
export function mapping(value: unknown): Readonly<Record<string, unknown>> {
  if (!isObject(value)) throw new Error(`no mapping: ${JSON.stringify(value)}`)
  return value
}

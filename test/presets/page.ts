import { blocksOf } from "../docs/blocks.ts"

/** The upstreams that docs/providers.md shows: the lines that a new user copies. */

export interface Shown {
  readonly name: string
  readonly lines: number
  /** As it stands in the file. */
  readonly entry: Readonly<Record<string, string>>
}

/** The whole file at the top of the page, and the lines of each provider below it. */
const [whole, ...others] = blocksOf("docs/providers.md").filter(({ language }) => language === "yaml")
export const exampleFile = whole?.text ?? ""

export const shown: readonly Shown[] = others.flatMap(({ text }) => {
  const { upstreams }: { upstreams: Record<string, Record<string, string>> } = JSON.parse(
    JSON.stringify(Bun.YAML.parse(text)),
  )
  return Object.entries(upstreams).map(([name, entry]) => ({
    name,
    entry,
    lines: text.trimEnd().split("\n").length,
  }))
})

/** A value for each variable and file that the page names. */
const variables = others.flatMap(({ text }) =>
  [...text.matchAll(/\$\{(\w+)\}/g)].map(([, name = ""]) => name),
)
export const sources = {
  env: Object.fromEntries(variables.map((name) => [name, "sk-a"])),
  readFile: () => "sk-from-a-file",
}

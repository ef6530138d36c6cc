import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"

const ROOT = join(import.meta.dir, "../..")
const textOf = (path: string) => readFileSync(join(ROOT, path), "utf8")
const page = textOf("docs/traces.md")

/** What stands in backticks in the first cells of the table that begins with `head`. */
function told(head: string): string[] {
  const table = page.slice(page.indexOf(head))
  const rows = table.slice(0, table.indexOf("\n\n")).split("\n").slice(2)
  return rows.flatMap((row) =>
    [...(row.split("|")[1] ?? "").matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name),
  )
}

describe("D54 docs/traces.md", () => {
  test("has every variable that is read, and no other", () => {
    const code = textOf("src/config/tracing.ts")
    const whole = [...code.matchAll(/\bOTEL_[A-Z_]+[A-Z]\b/g)].map(([name]) => name)
    const specific = [...code.matchAll(/\b(?:specific)\("([A-Z]+)"\)/g)].flatMap(([, what]) => [
      `OTEL_EXPORTER_OTLP_${what}`,
      `OTEL_EXPORTER_OTLP_TRACES_${what}`,
    ])
    const read = new Set([...whole, ...specific].filter((name) => !name.endsWith("_FILE")))
    expect(told("| variable |").sort()).toEqual([...read].sort())
  })

  test("has every attribute that a span can have, and no other", () => {
    const code = ["attributes", "recorded", "tracer"]
      .map((file) => textOf(`src/traces/${file}.ts`))
      .join("\n")
    const said = new Set(
      [...code.matchAll(/"((?:[a-z_]+\.)+[a-z_]+)"(?=:|\]:)/g)].map(([, name = ""]) => name),
    )
    expect(said.size).toBeGreaterThan(20)
    expect(told("| attribute |").sort()).toEqual([...said, "service.name"].sort())
  })
})

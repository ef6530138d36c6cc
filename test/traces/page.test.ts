import { describe, expect, test } from "bun:test"
import { textOf } from "../support/repository.ts"

const page = textOf("docs/traces.md")

/** What stands in backticks in the first cells of the table that begins with `head`. */
function told(head: string, text = page): string[] {
  const table = text.slice(text.indexOf(head))
  const rows = table.slice(0, table.indexOf("\n\n")).split("\n").slice(2)
  return rows.flatMap((row) =>
    [...(row.split("|")[1] ?? "").matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name),
  )
}

/** Variables that a file of the configuration names in full. */
const namedIn = (file: string) =>
  [...textOf(`src/config/${file}.ts`).matchAll(/\bOTEL_[A-Z_]+[A-Z]\b/g)]
    .map(([name]) => name)
    .filter((name) => !name.endsWith("_FILE"))
/** Those with one for all kinds of telemetry and one for each. */
const kinds = ["HEADERS", ...textOf("src/config/otlp.ts").matchAll(/specific\("([A-Z]+)"\)/g)].map((found) =>
  typeof found === "string" ? found : (found[1] ?? ""),
)
const specific = (signal: string) => kinds.map((what) => `OTEL_EXPORTER_OTLP_${signal}_${what}`)
const general = [...namedIn("otlp"), ...kinds.map((what) => `OTEL_EXPORTER_OTLP_${what}`)]

test("D108 docs/metrics.md has every variable of pushed metrics, and no other", () => {
  const read = new Set([...namedIn("pushed-metrics"), ...specific("METRICS")])
  const shared = "OTEL_EXPORTER_OTLP_ENDPOINT"
  const shown = told("| variable |", textOf("docs/metrics.md"))
  expect(shown.sort()).toEqual(
    [...read].filter((name) => name !== shared && name !== "OTEL_SDK_DISABLED").sort(),
  )
})

describe("D54 docs/traces.md", () => {
  test("has every variable that is read, and no other", () => {
    const read = new Set([...namedIn("tracing"), ...general, ...specific("TRACES")])
    expect(told("| variable |").sort()).toEqual([...read].sort())
  })

  test("has every attribute that a span can have, and no other", () => {
    const code = ["attributes", "recorded", "tracer", "origin"]
      .map((file) => textOf(`src/traces/${file}.ts`))
      .join("\n")
    const said = new Set(
      [...code.matchAll(/"((?:[a-z_]+\.)+[a-z_]+)"(?=:|\]:)/g)].map(([, name = ""]) => name),
    )
    expect(said.size).toBeGreaterThan(20)
    expect(told("| attribute |").sort()).toEqual([...said, "service.name"].sort())
  })
})

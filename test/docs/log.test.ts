import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { endings, failures } from "../../src/wire/call.ts"
import { testHarness } from "../http/harness.ts"
import { json } from "../support/provider.ts"
import { textOf } from "../support/repository.ts"

const harness = await testHarness()

const page = textOf("docs/log.md")
const backticked = (text: string) => [...text.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name)
/** What the line of a request says, by the line's message. */
function line(msg: string): Record<string, unknown> {
  const lines = harness.gateway.lines.map((text): Record<string, unknown> => JSON.parse(text))
  const found = lines.findLast((said) => said.msg === msg)
  if (found === undefined) throw new Error(`no line says ${msg}`)
  return found
}

test("D54 docs/log.md has every field of a call's line, and no other", async () => {
  const { key } = await harness.account()
  await harness.chat(key, {}, ["traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"])
  const table = page.slice(page.indexOf("| field |"))
  const rows = table.slice(0, table.indexOf("\n\n")).split("\n").slice(2)
  const told = rows.flatMap((row) => backticked(row.split("|")[1] ?? ""))
  expect(["level", "time", "msg", ...told].sort()).toEqual(Object.keys(line("call")).sort())
  await harness.chat(key)
  expect(line("call")).not.toHaveProperty("trace_id")
})

test("D8, D28 docs/log.md has every ending and failure, and no other", () => {
  const section = page.slice(page.indexOf("## How a call ended"))
  const words = (column: string) => {
    const table = section.slice(section.indexOf(`| \`${column}\` | `))
    const rows = table.slice(0, table.indexOf("\n\n")).split("\n").slice(2)
    return rows.flatMap((row) => backticked(row.split("|")[1] ?? "")).sort()
  }
  expect(words("ending")).toEqual([...endings].sort())
  expect(words("failure")).toEqual([...failures].sort())
})

test("docs/log.md has every field of the warning of an attempt that failed", async () => {
  const { key } = await harness.account()
  harness.provider.replyOnce(json(500, {}))
  await harness.chat(key)
  const sentence = page.slice(page.indexOf("The warning `"))
  for (const field of Object.keys(line("upstream attempt failed")).filter(
    (name) => !/^(level|time|msg|pid|hostname)$/.test(name),
  )) {
    expect(backticked(sentence)).toContain(field)
  }
})

test("docs/log.md lists only warnings that the code writes", () => {
  const src = join(import.meta.dir, "../../src")
  const code = [...new Bun.Glob("**/*.ts").scanSync({ cwd: src })]
    .map((path) => readFileSync(join(src, path), "utf8"))
    .join("\n")
  const table = page.slice(page.indexOf("| message |"))
  const messages = [...table.matchAll(/^\| `([^`]+)` \|/gm)].map(([, message = ""]) => message)
  expect(messages.length).toBeGreaterThan(10)
  expect(messages.filter((message) => !code.includes(`"${message}"`))).toEqual([])
})

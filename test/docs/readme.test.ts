import { describe, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { loadConfig } from "../../src/config/load.ts"
import { readJson } from "../../src/meter/json-reading.ts"
import type { StreamEvidence } from "../../src/meter/reading.ts"
import { printUsd } from "../../src/money.ts"
import { decide } from "../../src/settlement/decide.ts"
import { priceVerdict } from "../../src/settlement/price.ts"

const ROOT = join(import.meta.dir, "../..")
const readme = readFileSync(join(ROOT, "README.md"), "utf8")
const yaml = /```yaml\n([\s\S]*?)```/.exec(readme)?.[1] ?? ""
const sources = {
  env: { OPENAI_API_KEY: "sk-openai", ANTHROPIC_API_KEY: "sk-anthropic" },
  readFile: () => {
    throw new Error("the example reads no file")
  },
}
const config = loadConfig(yaml, sources)

describe("the configuration in the README", () => {
  test("is one that the loader takes", () => {
    expect(config.models.map(({ name }) => name)).toEqual(["gpt-5-mini", "claude-sonnet"])
  })

  test("shows the defaults where it says that they are", () => {
    const { vendors, stream, limits, lease, shutdown, upstreams, models } = file()
    expect([vendors, stream, limits, lease, shutdown].includes(undefined)).toBeFalse()
    const bare = {
      upstreams: without(upstreams, "timeouts", "on_disconnect"),
      models: without(models, "part_tokens", "bytes_per_token", "estimate"),
    }
    expect(loadConfig(JSON.stringify(bare), sources)).toEqual(config)
  })
})

interface ExampleFile {
  readonly upstreams: Readonly<Record<string, object>>
  readonly models: readonly object[]
  readonly vendors?: unknown
  readonly stream?: unknown
  readonly limits?: unknown
  readonly lease?: unknown
  readonly shutdown?: unknown
}

function file(): ExampleFile {
  return JSON.parse(JSON.stringify(Bun.YAML.parse(yaml)))
}

/** `value` without these keys of its entries. */
function without(value: unknown, ...keys: readonly string[]): unknown {
  return JSON.parse(JSON.stringify(value, (key, part: unknown) => (keys.includes(key) ? undefined : part)))
}

test("the README's table of variables has every one that is read, and no other", () => {
  const code = readFileSync(join(ROOT, "src/config/environment.ts"), "utf8")
  const read = [...code.matchAll(/\b(?:plain|secret)\("([A-Z_]+)"\)/g)].map(([, name = ""]) => name)
  const table = readme.slice(readme.indexOf("| variable |"))
  const rows = table.slice(0, table.indexOf("\n\n")).split("\n").slice(2)
  const told = rows.flatMap((row) => row.split("|")[1]?.match(/[A-Z][A-Z_]+/g) ?? [])
  expect(told.sort()).toEqual(read.sort())
})

describe("the README's examples of the six rules", () => {
  const price = config.models[0]?.price ?? {
    input_pico: 0n,
    cached_input_pico: 0n,
    output_pico: 0n,
    per_call_nano: 0n,
  }
  const terms = { bytes_per_token: 4, prompt_tokens_estimate: 0, estimate_prompt: "client_cut" } as const
  const HELD_NANO = 1_000_000_000n
  const cost = (evidence: Parameters<typeof decide>[0]) =>
    printUsd(priceVerdict(decide(evidence, terms), price, HELD_NANO).charge_nano)
  const json = (body: string) => cost(readJson(new TextEncoder().encode(body), "completed", false))
  const stream = (ending: StreamEvidence["ending"], output_bytes: number) =>
    cost({
      shape: "stream",
      ending,
      usage: { state: "missing" },
      usage_final: false,
      output_bytes,
      output_bytes_after_usage: 0,
      implausible: false,
      error: false,
    })
  const said = (rule: number) => readme.split("\n").find((line) => line.startsWith(`| ${rule} |`)) ?? ""
  const message = (content: string) => ({ choices: [{ message: { role: "assistant", content } }] })
  const usage = { prompt_tokens: 1000, completion_tokens: 200, prompt_tokens_details: { cached_tokens: 400 } }

  test.each([
    ["rule 1", 1, json(JSON.stringify({ ...message("x"), usage })), "0.00056"],
    ["rule 2", 2, json(JSON.stringify(message("x".repeat(42)))), "0.00002"],
    ["rule 2, an empty object", 2, json("{}"), "0.000002"],
    ["rule 3", 3, json("<html></html>"), "0"],
    ["rule 4", 4, stream("completed", 1000), "0.0005"],
    ["rule 5", 5, stream("upstream_lost", 300), "0.00015"],
    ["rule 6", 6, stream("completed", 0), "0"],
  ] as const)("%s", (_name, rule, charged, told) => {
    expect(charged).toBe(told)
    expect(said(rule)).toContain(` ${told} USD`)
  })
})

test("every file and folder that the README names is there", () => {
  const picture = /\n {4}src\/\n([\s\S]*?)\n\n/.exec(readme)?.[1] ?? ""
  const names = picture.split("\n").flatMap((line) => {
    const column = line.slice(0, 40).trimStart()
    const within = line.startsWith("      ") ? "src" : "."
    return (
      column
        .match(/^(?:[\w./-]+(?:\.ts|\.md|\/) ?)+/)?.[0]
        .trim()
        .split(" ") ?? []
    ).map((name) => join(within, name))
  })
  expect(names.length).toBeGreaterThan(15)
  expect(names.filter((name) => !existsSync(join(ROOT, name)))).toEqual([])
  const linked = [...readme.matchAll(/\]\(([^)]+)\)/g)].map(([, link = ""]) => link)
  expect(linked.filter((link) => !existsSync(join(ROOT, link)))).toEqual([])
})

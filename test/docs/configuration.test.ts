import { describe, expect, test } from "bun:test"
import { ConfigFile } from "../../src/config/file.ts"
import { loadConfig } from "../../src/config/load.ts"
import { textOf } from "../support/repository.ts"
import { CONFIGURATION_PAGE, exampleConfiguration } from "./blocks.ts"
import { configurationPage, keysOf } from "./configuration-keys.ts"

/** docs/configuration.md: its example loads, shows the defaults, and its table names the variables that the code reads. */

const yaml = exampleConfiguration()
const sources = {
  env: { OPENAI_API_KEY: "sk-openai", ANTHROPIC_API_KEY: "sk-anthropic" },
  readFile: () => {
    throw new Error("the example reads no file")
  },
}
const config = loadConfig(yaml, sources)

describe("the example of docs/configuration.md", () => {
  test("is one that the loader takes", () => {
    expect(config.models.map(({ name }) => name)).toEqual([
      "gpt-5-mini",
      "text-embedding-3-small",
      "claude-sonnet",
    ])
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

describe("the tables of keys", () => {
  test("are those of the schema; `bun test/docs/write.ts` writes them", () => {
    expect(textOf(CONFIGURATION_PAGE)).toBe(configurationPage())
  })

  test("say of every key what it means", () => {
    const silent = keysOf(ConfigFile).filter(({ schema }) => schema.description === undefined)
    expect(silent.map(({ part, name }) => `${part}.${name}`)).toEqual([])
  })
})

test("the table of variables has every one that is read, and no other", () => {
  const code = textOf("src/config/environment.ts")
  const read = [...code.matchAll(/\b(?:plain|secret)\("([A-Z_]+)"\)/g)].map(([, name = ""]) => name)
  const page = textOf(CONFIGURATION_PAGE)
  const table = page.slice(page.indexOf("| variable |"))
  const rows = table.slice(0, table.indexOf("\n\n")).split("\n").slice(2)
  const told = rows.flatMap((row) => row.split("|")[1]?.match(/[A-Z][A-Z_]+/g) ?? [])
  expect(told.sort()).toEqual(read.sort())
})

import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { chmod, mkdir, mkdtemp, rm, symlink } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { demoConfig } from "../../src/demo/demo-config.ts"
import { startDemoProvider } from "../../src/demo/provider.ts"
import type { Block } from "../docs/blocks.ts"
import { blocksToRun, programsOf } from "../docs/left-out.ts"
import { packageOf, pythonComplaint, pythonHas } from "../docs/python.ts"
import { type Place, Terminal } from "../docs/shell.ts"
import { startGateway, type TestGateway } from "../support/gateway.ts"
import { textOf } from "../support/repository.ts"

/** Every code block of docs/clients.md, run as it stands against the demo, in the order of the page and in one shell. */

const PAGE = "docs/clients.md"

const MODULES = join(import.meta.dir, "../../node_modules")

/** Coding agents, which are installed by `bun run agents`. */
const AGENTS = join(import.meta.dir, "../agents/node_modules")
const CODEX = join(AGENTS, ".bin/codex")
const has_codex = await Bun.file(CODEX).exists()

const can_run = (title: string) =>
  title === "curl" ? Bun.which("curl") !== null : title !== "Codex" || has_codex

const INSTALLED = [
  "@anthropic-ai/sdk",
  "openai",
  "ai",
  "@ai-sdk/openai-compatible",
  "@langchain/openai",
  "@langchain/core",
]

const ANSWER = "A reservation, or hold, is money set aside before a call is sent"

interface Example {
  readonly title: string
  /** What is printed, in this order. */
  readonly prints: readonly string[]
  /** Calls that were charged by their usage. */
  readonly calls: number
}

const SECTIONS: readonly Example[] = [
  {
    title: "openai",
    prints: [ANSWER, " tokens\n", "call CALL\n", "404 model_not_found "],
    calls: 1,
  },
  {
    title: "AI SDK",
    prints: [ANSWER, " tokens in, of them cached ", " out\n", "call CALL\n"],
    calls: 1,
  },
  { title: "LangChain", prints: [ANSWER, " tokens\n", ANSWER], calls: 2 },
  {
    title: "Responses",
    prints: [ANSWER, " tokens\n"],
    calls: 1,
  },
  { title: "Codex", prints: [ANSWER], calls: 1 },
  {
    title: "Anthropic",
    prints: [ANSWER, " tokens, call CALL\n", " tokens\n", "model demo-messages\n"],
    calls: 1,
  },
  { title: "Claude Code", prints: [ANSWER], calls: 1 },
  {
    title: "curl",
    prints: ["data: {", "data: [DONE]", '"choices":[', '"id":"demo-small"', '"input_tokens":'],
    calls: 2,
  },
  {
    title: "Embeddings",
    prints: ["2 vectors of 64 numbers, ", " tokens"],
    calls: 1,
  },
]

let demo: Awaited<ReturnType<typeof startDemoProvider>>
let gateway: TestGateway
let folder: string
const outside = createServer()
let strangers = 0
const page = textOf(PAGE)
const blocks = has_codex ? programsOf(PAGE) : blocksToRun(PAGE)
let account: Awaited<ReturnType<TestGateway["account"]>>
let terminal: Terminal

beforeAll(async () => {
  demo = await startDemoProvider()
  gateway = await startGateway(demo, demoSections(demo.url))
  folder = await mkdtemp(join(tmpdir(), "tollgate-page-"))
  for (const name of INSTALLED) {
    const path = join(folder, "node_modules", name)
    await mkdir(dirname(path), { recursive: true })
    await symlink(join(MODULES, name), path)
  }
  const cli = join(MODULES, "@anthropic-ai/claude-code/cli.js")
  const claude = join(folder, "bin/claude")
  await Bun.write(
    claude,
    `#!/bin/sh
exec '${process.execPath}' '${cli}' "$@"
`,
  )
  await chmod(claude, 0o755)
  outside.on("connection", (socket) => {
    strangers += 1
    socket.destroy()
  })
  await new Promise<void>((resolve) => outside.listen(0, "127.0.0.1", resolve))
  account = await gateway.account("10")
  terminal = new Terminal(here(account.key))
})
afterAll(async () => {
  await terminal.close()
  expect(await gateway.audit()).toMatchObject({ open_holds: 0, violations: [] })
  await gateway.stop()
  await demo.stop()
  outside.close()
  await rm(folder, { recursive: true, force: true })
})

describe("the examples of docs/clients.md", () => {
  for (const { title, prints, calls } of SECTIONS) {
    test.skipIf(!can_run(title))(title, async () => {
      const before = (await madeCalls(account.id)).length
      const known_strangers = strangers
      // Codex asks its makers for news, and tells on standard error what it does.
      const is_codex = title === "Codex"
      if (is_codex) terminal.set(proxies(9))
      let rest = ""
      const own = sectionOf(title).filter((block) => block.language !== "py" || canRunPython(block))
      for (const block of own) {
        const { code, out, err } = await terminal.run(block)
        expect({ line: block.line, code, err: is_codex ? "" : err }).toEqual({
          line: block.line,
          code: 0,
          err: "",
        })
        rest += out
      }
      if (is_codex) terminal.set(proxies(portOf(outside.address())))
      // It asks for news of itself, which nobody answers here.
      if (title === "Claude Code") strangers = known_strangers
      const all = await madeCalls(account.id)
      const in_python = own.filter(({ language }) => language === "py").length
      const made = all.slice(0, all.length - before)
      expect(made).toHaveLength(calls + in_python)
      for (const call of made) expect(call).toMatchObject({ state: "settled", basis: "usage" })
      rest = rest.replaceAll(String(made[in_python]?.id), "CALL")
      for (const text of [...prints, ...Array(in_python).fill(ANSWER)]) {
        expect(rest).toContain(text)
        rest = rest.slice(rest.indexOf(text) + text.length)
      }
    })
  }

  test.each([
    ["Anthropic", "with ANTHROPIC_AUTH_TOKEN", /ANTHROPIC_API_KEY/g, "ANTHROPIC_AUTH_TOKEN"],
    [
      "LangChain",
      "with OPENAI_API_BASE",
      /export OPENAI_BASE_URL/g,
      "export OPENAI_BASE_URL=http://127.0.0.1:9\nexport OPENAI_API_BASE",
    ],
  ] as const)("%s %s", async (title, _how, variable, other) => {
    const { id, key } = await gateway.account("1")
    const [variables, program] = sectionOf(title)
    if (variables === undefined || program === undefined) throw new Error(`${title} has no program`)
    const changed = { ...variables, text: variables.text.replace(variable, other) }
    expect(changed).not.toEqual(variables)
    const shell = new Terminal(here(key))
    await shell.play(changed)
    expect((await shell.play(program)).trim()).not.toBe("")
    await shell.close()
    expect((await gateway.calls(`?account=${id}`)).every(({ state }) => state === "settled")).toBeTrue()
  })

  test("both SDKs that have a Python form are shown with it", () => {
    const programs = blocks.filter(({ language }) => language === "py")
    expect(programs.map(({ section, text }) => [section, packageOf(text)])).toEqual([
      ["openai", "openai"],
      ["Anthropic", "anthropic"],
    ])
    expect(programs.map(({ text }) => pythonComplaint(text))).toEqual([null, null])
  })

  test("every section with code is among them", () => {
    const titles = programsOf(PAGE).map(({ section }) => section)
    expect([...new Set(titles)]).toEqual(SECTIONS.map(({ title }) => title))
  })

  test("what they install is what the tests run", async () => {
    const { devDependencies: clients } = await Bun.file(join(MODULES, "../package.json")).json()
    const { devDependencies: agents } = await Bun.file(join(AGENTS, "../package.json")).json()
    const devDependencies = { ...clients, ...agents }
    const named = [...page.matchAll(/^npm install (.+)$/gm)].flatMap(([, names = ""]) => names.split(" "))
    expect(named.length).toBeGreaterThan(4)
    expect(named.filter((name) => !(name in devDependencies))).toEqual([])
  })

  test("none of them speaks to anybody else", () => {
    expect(strangers).toBe(0)
  })
})

function sectionOf(title: string): readonly Block[] {
  return blocks.filter(({ section }) => section === title)
}

const canRunPython = ({ text }: Block) => pythonHas(packageOf(text))

/** Newest first. */
const madeCalls = (id: string) => gateway.calls(`?account=${id}&limit=1000`)

/** A folder that has the packages already. */
function here(key: string): Place {
  const installs = [...page.matchAll(/^npm install .*$/gm)].map(([line]) => [`${line}\n`, ""])
  return {
    folder,
    url: gateway.url,
    words: {
      ...Object.fromEntries(installs),
      "tg_live_…": key,
      "npx codex": CODEX,
      "npx claude": join(folder, "bin/claude"),
    },
    env: {
      HOME: folder,
      TMPDIR: folder,
      ...proxies(portOf(outside.address())),
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      NO_PROXY: "127.0.0.1",
      no_proxy: "127.0.0.1",
    },
  }
}

function proxies(port: number) {
  const proxy = `http://127.0.0.1:${port}`
  return { HTTP_PROXY: proxy, HTTPS_PROXY: proxy, ALL_PROXY: proxy }
}

function portOf(address: ReturnType<typeof outside.address>): number {
  if (address === null || typeof address === "string") throw new Error("nobody listens outside")
  return address.port
}

function demoSections(provider_url: string): Record<string, unknown> {
  return Object.fromEntries(Object.entries(Object(Bun.YAML.parse(demoConfig(provider_url)))))
}

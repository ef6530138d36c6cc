import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { chmod, mkdir, mkdtemp, rm, symlink } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { demoConfig } from "../../src/demo/demo-config.ts"
import { type DemoProvider, startDemoProvider } from "../../src/demo/provider.ts"
import { packageOf, pythonComplaint, pythonHas } from "../docs/python.ts"
import { startGateway, type TestGateway } from "../support/gateway.ts"
import { readPage, type Section, sectionsOf } from "./page.ts"

/** Every code block of docs/clients.md, run as it stands against the demo, by a shell and by Bun. */

const MODULES = join(import.meta.dir, "../../node_modules")

/** Coding agents, which are installed by `bun run agents`. */
const AGENTS = join(import.meta.dir, "../agents/node_modules")
const CODEX = join(AGENTS, ".bin/codex")
const has_codex = await Bun.file(CODEX).exists()

function isMissing(title: string): boolean {
  return (title === "curl" && Bun.which("curl") === null) || (title === "Codex" && !has_codex)
}

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

let demo: DemoProvider
let gateway: TestGateway
let folder: string
const outside = createServer()
let strangers = 0
const page = await readPage()
const sections = sectionsOf(page)

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
})
afterAll(async () => {
  expect(await gateway.audit()).toMatchObject({ open_holds: 0, violations: [] })
  await gateway.stop()
  await demo.stop()
  outside.close()
  await rm(folder, { recursive: true, force: true })
})

describe("the examples of docs/clients.md", () => {
  for (const { title, prints, calls } of SECTIONS) {
    const testOf = isMissing(title) ? test.skip : test
    testOf(title, async () => {
      const { id, key } = await gateway.account("1")
      const before = strangers
      const printed = await run(without("py", sectionOf(title)), key)
      // It asks for news of itself, which nobody answers here.
      if (title === "Claude Code") strangers = before
      const made = await gateway.calls(`?account=${id}`)
      expect(made).toHaveLength(calls)
      for (const call of made) expect(call).toMatchObject({ state: "settled", basis: "usage" })
      let rest = printed.replaceAll(String(made[0]?.id), "CALL")
      for (const text of prints) {
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
    const { blocks } = sectionOf(title)
    const changed = blocks
      .slice(0, 2)
      .map(({ language, code }) => ({ language, code: code.replace(variable, other) }))
    expect(changed).not.toEqual(blocks.slice(0, 2))
    expect(await run({ title, blocks: changed }, key)).not.toBe("")
    expect((await gateway.calls(`?account=${id}`)).every(({ state }) => state === "settled")).toBeTrue()
  })

  const programs = sections.flatMap((section) =>
    section.blocks.filter(({ language }) => language === "py").map((block) => ({ section, block })),
  )
  test.each(programs)("$section.title in Python", async ({ section, block }) => {
    expect(pythonComplaint(block.code)).toBeNull()
    if (!pythonHas(packageOf(block.code))) return
    const { id, key } = await gateway.account("1")
    const [variables] = section.blocks
    const blocks = variables === undefined ? [block] : [variables, block]
    expect(await run({ title: section.title, blocks }, key)).toContain(ANSWER)
    expect(await gateway.calls(`?account=${id}`)).toMatchObject([{ state: "settled", basis: "usage" }])
  })

  test("both SDKs that have a Python form are shown with it", () => {
    expect(programs.map(({ section, block }) => [section.title, packageOf(block.code)])).toEqual([
      ["openai", "openai"],
      ["Anthropic", "anthropic"],
    ])
  })

  test("every section with code is among them", () => {
    const titles = sections.filter(({ blocks }) => blocks.length > 0).map(({ title }) => title)
    expect(titles).toEqual([...new Set(SECTIONS.map(({ title }) => title))])
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

function sectionOf(title: string): Section {
  const section = sections.find((one) => one.title === title)
  if (section === undefined) throw new Error(`the page has no section ${title}`)
  return section
}

function without(language: string, { title, blocks }: Section): Section {
  return { title, blocks: blocks.filter((block) => block.language !== language) }
}

/** One shell goes through a section as a reader does, with packages that are there already. */
async function run({ title, blocks }: Section, key: string): Promise<string> {
  const steps = blocks.map(async ({ language, code }, at) => {
    const text = code.replaceAll("http://127.0.0.1:8080", gateway.url).replaceAll("tg_live_…", key)
    if (language === "toml") return ""
    if (language === "sh")
      return text
        .replace(/^npm install .*$/gm, "")
        .replace("npx codex", CODEX)
        .replace("npx claude", join(folder, "bin/claude"))
    const file = join(folder, `${title}-${at}.${language === "py" ? "py" : "mjs"}`)
    await Bun.write(file, text)
    return `'${language === "py" ? "python3" : process.execPath}' '${file}'`
  })
  // Codex asks its makers for news, and tells on standard error what it does.
  const is_codex = title === "Codex"
  const proxy = `http://127.0.0.1:${is_codex ? 9 : portOf(outside.address())}`
  const shell = Bun.spawn(["/bin/sh", "-ec", (await Promise.all(steps)).join("\n")], {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      HOME: folder,
      TMPDIR: folder,
      HTTP_PROXY: proxy,
      HTTPS_PROXY: proxy,
      ALL_PROXY: proxy,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      NO_PROXY: "127.0.0.1",
      no_proxy: "127.0.0.1",
    },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const [out, complaints, exit] = await Promise.all([
    new Response(shell.stdout).text(),
    new Response(shell.stderr).text(),
    shell.exited,
  ])
  expect({ complaints: is_codex ? "" : complaints, exit }).toEqual({ complaints: "", exit: 0 })
  return out
}

function portOf(address: ReturnType<typeof outside.address>): number {
  if (address === null || typeof address === "string") throw new Error("nobody listens outside")
  return address.port
}

function demoSections(provider_url: string): Record<string, unknown> {
  return Object.fromEntries(Object.entries(Object(Bun.YAML.parse(demoConfig(provider_url)))))
}

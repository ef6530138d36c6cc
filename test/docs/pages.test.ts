import { afterAll, describe, expect, test } from "bun:test"
import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { loadConfig } from "../../src/config/load.ts"
import { demoAccessPath } from "../../src/demo/access.ts"
import { Workplace } from "../process/workplace.ts"
import { json, startProvider } from "../support/provider.ts"
import { type Block, blocksOf, pages, textOf } from "./blocks.ts"
import { packageOf, pythonComplaint, pythonHas } from "./python.ts"
import { type Document, entriesOf, errorsOf } from "./reference.ts"
import { type Place, play, shell } from "./shell.ts"

/**
 * Every block of code in the README and in docs/ is run or checked: here, beside a demo as a reader has it, or by the test of
 * its page.
 */

const ROOT = join(import.meta.dir, "../..")

/** Pages whose blocks have a test of their own, which names the page. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "docs/clients.md": "test/clients/page.ts",
  "docs/load-testing.md": "test/docs/load-testing.test.ts",
  "docs/metrics.md": "test/metrics/exposition.test.ts",
  "docs/providers.md": "test/presets/page.ts",
  "docs/operating.md": "test/docs/operating.test.ts",
  "docs/traces.md": "test/traces/page.test.ts",
  "docs/deploying.md": "test/docs/deploying.test.ts",
}

/** A diagram is looked at, not run. */
const blocks = pages
  .filter((page) => !(page in ELSEWHERE))
  .flatMap(blocksOf)
  .filter(({ language }) => language !== "mermaid")
const done = new Set<Block>()

/** The blocks of this language in these sections of a page, in their order; they count as run. */
function take(page: string, language: string, ...sections: readonly string[]): readonly Block[] {
  const taken = blocks.filter(
    (block) =>
      block.page === page &&
      block.language === language &&
      (sections.length === 0 || sections.includes(block.section)),
  )
  for (const block of taken) done.add(block)
  return taken
}

const place = new Workplace()

const gateway = await place.start({ TOLLGATE_ADMIN_TOKEN: "" })
await gateway.prints("Next, in another terminal")
const key = JSON.parse(readFileSync(join(place.data_dir, "demo-key"), "utf8")).key
const admin_token = JSON.parse(readFileSync(demoAccessPath(place.data_dir), "utf8")).admin_token
symlinkSync(join(ROOT, "node_modules"), join(place.folder, "node_modules"))
afterAll(async () => {
  gateway.signal("SIGTERM")
  await gateway.exited
  await place.clear()
})

/** Beside the demo, with its key and its token. */
const here = (env: Record<string, string> = {}): Place => ({
  folder: place.folder,
  url: gateway.url,
  env: { KEY: key, TOLLGATE_URL: gateway.url, TOLLGATE_ADMIN_TOKEN: admin_token, ...env },
  words: { "tg_live_…": key },
})

/** The ids of an account with a key, and of a call. */
async function exampleIds(): Promise<{ ACCOUNT: string; KEY_ID: string; BUDGET: string; CALL: string }> {
  const ask = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = { authorization: `Bearer ${path.startsWith("/admin") ? admin_token : key}` }
    const json = { "content-type": "application/json" }
    return fetch(gateway.url + path, { ...init, headers: { ...headers, ...json } })
  }
  const made = async (path: string, body: object) => {
    const { id }: { id: string } = JSON.parse(
      await (await ask(path, { method: "POST", body: JSON.stringify(body) })).text(),
    )
    return id
  }
  const ACCOUNT = await made("/admin/accounts", { name: "AdminHarness" })
  const KEY_ID = await made(`/admin/accounts/${ACCOUNT}/keys`, {})
  const of_all = { name: "All calls", selector: "all", amount: "500", per: "month" }
  const BUDGET = await made(`/admin/accounts/${ACCOUNT}/budgets`, of_all)
  const messages = [{ role: "user", content: "hello" }]
  const body = JSON.stringify({ model: "demo-small", messages, max_tokens: 1 })
  const call = await ask("/v1/chat/completions", { method: "POST", body })
  return { ACCOUNT, KEY_ID, BUDGET, CALL: call.headers.get("x-request-id") ?? "none" }
}

/** What the demo's key reads about its account. */
async function ownAccount(): Promise<{ id: string; key: { id: string } }> {
  const own = await fetch(`${gateway.url}/v1/account`, { headers: { authorization: `Bearer ${key}` } })
  return JSON.parse(await own.text())
}

test("the start message: an account that no page creates again", async () => {
  const steps = [...gateway.printed.matchAll(/^ {2}(\S.* run tollgate .*?) {2,}/gm)].map(([, step]) => step)
  expect(steps).toHaveLength(4)
  const { code, out, err } = await shell(steps.join("\n"), here({ TOLLGATE_ADMIN_TOKEN: "" }))
  expect({ code, err }).toEqual({ code: 0, err: expect.not.stringContaining("same name") })
  expect(out).toContain("Acme")
})

describe("docs/getting-started.md", () => {
  const PAGE = "docs/getting-started.md"

  test("a first streamed call, and its receipt", async () => {
    const [start, ...others] = take(PAGE, "sh", "A first streamed call")
    // What it runs is what started the demo here.
    expect(start?.text).toBe("npx -y bun@1.4.5 run start\n")
    // Nothing is told to the command line: it finds the demo by itself.
    const said = await play(others, here({ KEY: "none", TOLLGATE_URL: "", TOLLGATE_ADMIN_TOKEN: "" }))
    expect(said).toContain('"role":"assistant"')
    expect(said).toContain("data: [DONE]")
    expect(said).toContain("settled")
    expect(said).toContain("charge")
  })

  test("an account of your own, by the command line and over HTTP", async () => {
    const said = await play(take(PAGE, "sh", "An account of your own"), here())
    expect(said).toContain("Globex")
    expect(said).toMatch(/tg_live_\w{36}/)
    expect(said).toContain('"amount":"25"')
    expect(said).toContain('"id":"demo-large"')
  })

  test("from the demo to real providers: the file is one, and `check` finds nothing wrong", async () => {
    const [yaml] = take(PAGE, "yaml")
    const [steps, ...next] = take(PAGE, "sh", "From the demo to real providers")
    const provider = await startProvider()
    provider.reply(json(200, { object: "list", data: [{ id: "gpt-5-mini-2025-08-07", object: "model" }] }))
    const other = new Workplace()
    const file = yaml?.text.replace("https://api.openai.com/v1", `${provider.url}/v1`) ?? ""
    writeFileSync(join(other.folder, "tollgate.yaml"), file)
    const said = await play(steps === undefined ? [] : [steps], {
      folder: other.folder,
      env: { PORT: "0" },
      words: { "sk-…": "sk-openai", "npx -y bun@1.4.5 run start": "echo would start" },
    })
    expect(said).toContain("✓")
    expect(said).not.toContain("✗")
    expect(said).toContain("would start")
    await other.clear()
    await provider.stop()
    // The second terminal has the token from its file only. The demo stands for the gateway that was started.
    writeFileSync(join(place.data_dir, "admin-token"), admin_token)
    const demo = here({ KEY: "none", TOLLGATE_ADMIN_TOKEN: "" })
    const words = { ...demo.words, Acme: "Umbrella", "gpt-5-mini": "demo-small" }
    const made = await play(next, { ...demo, words })
    expect(made).toMatch(/tg_live_\w{36}/)
    expect(made).toContain('"role":"assistant"')
    expect(made).toContain("demo-small")
  })
})

test("README.md: a first call", async () => {
  expect(await play(take("README.md", "sh"), here())).toContain("data: [DONE]")
})

describe("docs/administration.md", () => {
  test("accounts, credits and keys, by the command line and over HTTP", async () => {
    // In the demo that has run the other pages: each creates accounts of other names, by which the next lines name them.
    const said = await play(take("docs/administration.md", "sh"), here(await exampleIds()))
    expect(said).toContain("Ajax")
    expect(said).toContain("✓")
    expect(said).not.toContain('"type":"error"')
  })
})

test("docs/events.md: the feed of events", async () => {
  await exampleIds()
  const said = await play(take("docs/events.md", "sh"), here())
  expect(said).toContain("tollgate.call.ended")
  expect(said).toContain('"specversion":"1.0"')
  expect(said).not.toContain('"type":"error"')
})

test("docs/budgets.md: an organisation with a team, and a budget that is changed", async () => {
  const place = here(await exampleIds())
  const words = { ...place.words, "gpt-5-mini": "demo-small" }
  const said = await play(take("docs/budgets.md", "sh"), { ...place, words })
  expect(said).toContain("Search team")
  expect(said).toContain("group acme/search/anna")
  expect(said).toMatch(/100000 tokens per minute \(UTC\)/)
  expect(said).toMatch(/900 USD until/)
  expect(said).toContain("Deleted the budget")
  expect(said).toMatch(/"admitted":true,.*"budgets":\[\]/)
  expect(said).toMatch(/ changed +configured +Agreed with finance +All calls: 750 usd per month; hard/)
})

test("docs/finance.md: a month is closed", async () => {
  await exampleIds()
  const now = new Date().toISOString()
  const place = here()
  const month = { "MONTH=2026-11 TO=2026-12-01": `MONTH=${now.slice(0, 7)} TO=${now}` }
  // The other pages left many accounts.
  const words = { ...place.words, ...month, "accounts --all": "accounts --limit 2" }
  const said = await play(take("docs/finance.md", "sh"), { ...place, words })
  const statements = [...new Bun.Glob("statement-*.html").scanSync({ cwd: place.folder })]
  expect(statements).toHaveLength(2)
  expect(said).toMatch(/^specversion,.*\n(.*\n)*.*tollgate\.credit\.added,.*,refund,/m)
  expect(said).toMatch(/^MODEL .*COST/m)
  expect(said).toMatch(/^UPSTREAM .*demo-small/ms)
  expect(said).toMatch(/^closing balance /m)
  expect(said).toMatch(/^refunded /m)
  expect(said).toMatch(/ configured /)
})

describe("programs with an SDK", () => {
  test("run as they stand, and print something", async () => {
    const programs = blocks.filter(({ language }) => language === "ts")
    expect(programs.length).toBeGreaterThanOrEqual(3)
    const printed = await Promise.all(
      programs.map(async (block, at) => {
        done.add(block)
        const file = join(place.folder, `program-${at}.ts`)
        writeFileSync(file, block.text.replaceAll("http://127.0.0.1:8080", gateway.url))
        const { code, out, err } = await shell(`${process.execPath} ${file}`, here())
        return { at: `${block.page}:${block.line}`, code, err, printed: out.trim().length > 0 }
      }),
    )
    expect(printed).toEqual(printed.map(({ at }) => ({ at, code: 0, err: "", printed: true })))
  })

  test("in Python are programs, and run where their package is", async () => {
    const programs = blocks.filter(({ language }) => language === "py")
    expect(programs.map(({ text }) => packageOf(text))).toEqual(["openai", "openai", "anthropic"])
    for (const block of programs) {
      done.add(block)
      expect({ at: block.line, complaint: pythonComplaint(block.text) }).toEqual({
        at: block.line,
        complaint: null,
      })
      if (!pythonHas(packageOf(block.text))) continue
      const file = join(place.folder, `program-${block.line}.py`)
      writeFileSync(file, block.text.replaceAll("http://127.0.0.1:8080", gateway.url))
      expect(await shell(`python3 ${file}`, here())).toMatchObject({ code: 0, err: "" })
    }
  })
})

describe("the other blocks", () => {
  test("docs/billing.md: a key is limited", async () => {
    const said = await play(
      take("docs/billing.md", "sh", "Spending limits of a key"),
      here(await exampleIds()),
    )
    expect(JSON.parse(said)).toMatchObject({ spending_limit: { amount: "25", per: "day" } })
  })

  test("docs/billing.md: a key gets a label, and its calls are summed by it", async () => {
    const { key: shown } = await ownAccount()
    const said = await play(
      take("docs/billing.md", "sh", "Whose call it was, and what for"),
      here({ KEY_ID: shown.id }),
    )
    expect(said).toContain('"labels":{"team":"search"}')
    expect(said).toContain('"group":"search"')
    expect(said).toContain('"name":"ann@example.com"')
  })

  test("docs/billing.md: an account gets a price multiplier", async () => {
    const said = await play(take("docs/billing.md", "sh", "A price multiplier"), here(await exampleIds()))
    expect(JSON.parse(said)).toMatchObject({ price_multiplier: "1.25" })
  })

  test("docs/billing.md: a customer gets prices of its own", async () => {
    const said = await play(take("docs/billing.md", "sh", "Prices of one customer"), here(await exampleIds()))
    expect(said).toContain("× 0.9")
    expect(said).toContain("input 0.2, output 1.6")
    expect(said).toContain("Contract 118")
  })

  test("docs/billing.md: accounts share a price list", async () => {
    const said = await play(take("docs/billing.md", "sh", "Price lists"), here(await exampleIds()))
    expect(said).toContain("input 0.2, output 1.6")
    expect(said).toContain("× 0.85")
    expect(said).toContain("Contract 118")
  })

  test("docs/billing.md: a client looks up what its calls cost, and what one would hold", async () => {
    const { CALL } = await exampleIds()
    const demo = here({ CALL })
    const words = { ...demo.words, "gpt-5-mini": "demo-small" }
    const blocks = take("docs/billing.md", "sh", "Looking it up")
    const said = await play(blocks.slice(0, 1), { ...demo, words })
    const { id: ACCOUNT } = await ownAccount()
    const keys = await play(blocks.slice(1), here({ ACCOUNT }))
    expect(keys).toMatch(/"name":"batch jobs".*"key":"tg_live_/s)
    expect(keys).not.toContain('"type":"error"')
    const [receipt, calls, account, usage, statement, quote] = said
      .split(/(?<=\})(?=\{"(?:id|data|from|model|account_id)")/)
      .map((text) => JSON.parse(text))
    expect(receipt).toMatchObject({ id: CALL, state: "settled", charge: expect.any(String) })
    expect(calls.data.map(({ model }: { model: string }) => model)).toContain("demo-small")
    expect(account).toMatchObject({ available: expect.any(String), key: { suspended: false } })
    expect(usage).toMatchObject({ by: "model", total: { calls: expect.any(Number) } })
    expect(statement).toMatchObject({ account_id: ACCOUNT, closing: account.balance })
    expect(quote).toMatchObject({ model: "demo-small", admitted: true, max_tokens: 200 })
  })

  test("every configuration is one that the loader takes", () => {
    const files = blocks.filter(({ language }) => language === "yaml")
    for (const block of files) {
      const keys = { OPENAI_API_KEY: "sk-openai", ANTHROPIC_API_KEY: "sk-anthropic" }
      const env = { ...keys, OIDC_CLIENT_SECRET: "secret" }
      const { models, oidc } = loadConfig(block.text, { env, readFile: () => "" })
      expect(models.length > 0 || oidc !== null).toBeTrue()
      done.add(block)
    }
    expect(files.length).toBeGreaterThanOrEqual(4)
  })

  test("docs/errors.md: the error is the one of the reference", async () => {
    const document: Document = JSON.parse(await (await fetch(`${gateway.url}/docs/json`)).text())
    const chat = entriesOf(document).find(({ name }) => name === "POST /v1/chat/completions")
    const [shown] = take("docs/errors.md", "json")
    expect(chat && errorsOf(chat).get("insufficient_balance")?.body).toEqual(
      JSON.parse(shown?.text ?? "null"),
    )
  })

  test("docs/billing.md: the request is one, and is held as the page says: test/docs/billing.test.ts", () => {
    expect(take("docs/billing.md", "json")).toHaveLength(1)
    expect(readFileSync(join(import.meta.dir, "billing.test.ts"), "utf8")).toContain('language === "json"')
  })
})

/** Pages outside docs/, which have no code to run. */
const ROOT_PAGES = ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
/** Pages for those who use, operate or install the gateway, not for those who change it. */
const USER_PAGES = [
  ...[
    "getting-started",
    "clients",
    "billing",
    "errors",
    "providers",
    "configuration",
    "administration",
    "events",
  ],
  ...["deploying", "operating", "log", "metrics", "traces"],
]
/** Pages of the web, and the form for private reports on the site that hosts the repository. */
const OUTSIDE = /^https?:|^\.\.\/\.\.\/security\//

describe("links and names", () => {
  const links = [...pages, ...ROOT_PAGES].flatMap((page) =>
    [...textOf(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = ""]) => ({ page, link })),
  )

  test("every link of a page leads to a file, and to a heading of it where it names one", () => {
    expect(links.length).toBeGreaterThan(40)
    const astray = links.filter(({ page, link }) => {
      if (OUTSIDE.test(link)) return false
      const [path = "", heading] = link.split("#")
      const file = path === "" ? page : join(dirname(page), path)
      if (!existsSync(join(ROOT, file))) return true
      return heading !== undefined && !anchorsOf(file).includes(heading)
    })
    expect(astray).toEqual([])
  })

  test("a page for users cites a ruling only as a link with words", () => {
    const bare = USER_PAGES.flatMap((name) =>
      textOf(`docs/${name}.md`)
        .replace(/\[D\d+, [^\]]+\]\(decisions\.md#[^)]+\)/g, "")
        .split("\n")
        .filter((line) => /\bD\d+\b/.test(line))
        .map((line) => `${name}: ${line}`),
    )
    expect(bare).toEqual([])
  })

  test("every page of docs/ is in the README's list", () => {
    const listed = links.filter(({ page }) => page === "README.md").map(({ link }) => link)
    expect(pages.filter((page) => page.startsWith("docs/") && !listed.includes(page))).toEqual([])
  })

  test("every test that docs/faults.md names is there", () => {
    const named = [...textOf("docs/faults.md").matchAll(/`([\w/-]+\.test\.ts)`/g)].map(
      ([, name = ""]) => name,
    )
    expect(named.length).toBeGreaterThan(20)
    expect(named.filter((name) => !existsSync(join(ROOT, "test", name)))).toEqual([])
  })

  test("docs/performance.md marks what misses its goal", () => {
    const page = textOf("docs/performance.md")
    const rows = [...page.matchAll(/\| ([≤≥]) ([\d.]+)[^|]*\| (\**)([\d.]+)/g)]
    expect(rows.length).toBeGreaterThan(8)
    for (const [row, sign, goal, bold, measured] of rows) {
      const missed = sign === "≤" ? Number(measured) > Number(goal) : Number(measured) < Number(goal)
      expect({ row, missed: bold === "**" }).toEqual({ row, missed })
    }
  })
})

/** The names under which a page's headings are linked to. */
function anchorsOf(page: string): string[] {
  const headings = [...textOf(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading)
  return headings.map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  )
}

test("no block is left out, and every page that is tested elsewhere is", () => {
  const left = blocks.filter((block) => !done.has(block))
  expect(left.map(({ page, line, language }) => `${page}:${line} ${language}`)).toEqual([])
  for (const [page, file] of Object.entries(ELSEWHERE)) {
    expect(pages).toContain(page)
    expect(textOf(file)).toContain(page)
  }
})

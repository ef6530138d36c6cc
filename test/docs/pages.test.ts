import { afterAll, describe, expect, test } from "bun:test"
import { existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { loadConfig } from "../../src/config/load.ts"
import { demoAccessPath } from "../../src/demo/access.ts"
import { existingPlace } from "../../src/embedded/place.ts"
import { Workplace } from "../process/workplace.ts"
import { GATEWAY_FILE } from "../support/programs.ts"
import { chatCompletion, json, startProvider, usage } from "../support/provider.ts"
import { ROOT, textOf } from "../support/repository.ts"
import { type Block, blocksOf, pages } from "./blocks.ts"
import { blocksToRun, LEFT_OUT, programsOf } from "./left-out.ts"
import { packageOf, pythonComplaint, pythonHas } from "./python.ts"
import { type Document, entriesOf, errorsOf } from "./reference.ts"
import { type Place, shell, Terminal } from "./shell.ts"

/**
 * Every block of code in the README and in docs/ is run or checked: here, in the order of its page and in one shell beside a demo
 * that all pages share, or by the test of its page.
 */

/** Pages whose blocks have a test of their own, which names the page. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "docs/clients.md": "test/clients/page.test.ts",
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
/** The place in its page of each block that was run or checked. */
const done = new Set<string>()
const placeOf = ({ page, line, language }: Block) => `${page}:${line} ${language}`

/** The blocks of this language of a page, in their order; they count as checked. */
function take(page: string, language: string): readonly Block[] {
  const taken = blocks.filter((block) => block.page === page && block.language === language)
  for (const block of taken) done.add(placeOf(block))
  return taken
}

const place = new Workplace(".tollgate")

const gateway = await place.start({ TOLLGATE_ADMIN_TOKEN: "" })
await gateway.prints("Next, in another terminal")
const key: string = JSON.parse(readFileSync(join(place.data_dir, "demo-key"), "utf8")).key
const admin_token: string = JSON.parse(readFileSync(demoAccessPath(place.data_dir), "utf8")).admin_token
symlinkSync(join(ROOT, "node_modules"), join(place.folder, "node_modules"))
afterAll(async () => {
  // A gateway of root that is started as a page says has its cluster where Postgres' user can enter.
  const cluster = existingPlace(join(place.folder, "data"))
  if (cluster !== null) rmSync(cluster, { recursive: true })
  await place.clear()
})

/** Beside the demo, with its key and its token. */
const here = (env: Record<string, string> = {}, words: Record<string, string> = {}): Place => ({
  folder: place.folder,
  url: gateway.url,
  env: {
    KEY: key,
    TOLLGATE_URL: gateway.url,
    TOLLGATE_ADMIN_TOKEN: admin_token,
    TOLLGATE_DATA_DIR: "",
    ...env,
  },
  words: { "tg_live_…": key, ...words },
})

/** What the blocks of a page printed, in its order, by the section in which they are. */
type Printed = ReadonlyMap<string, string>

/**
 * Goes through a page in one shell: commands are run, and programs where their package is. `before` is what its reader does before
 * a block.
 */
async function walk(
  page: string,
  at: Place,
  before: (block: Block, terminal: Terminal, printed: Printed) => Promise<void> = async () => {},
): Promise<Printed> {
  const terminal = new Terminal(at)
  const printed = new Map<string, string>()
  try {
    for (const block of blocksToRun(page)) {
      done.add(placeOf(block))
      await before(block, terminal, printed)
      if (block.language === "py") {
        expect([placeOf(block), pythonComplaint(block.text)]).toEqual([placeOf(block), null])
        if (!pythonHas(packageOf(block.text))) continue
      }
      const said = await terminal.play(block)
      if (block.language !== "sh") expect([placeOf(block), said.trim()]).not.toEqual([placeOf(block), ""])
      printed.set(block.section, `${printed.get(block.section) ?? ""}${said}\n`)
    }
  } finally {
    await terminal.close()
  }
  return printed
}

const whole = (printed: Printed) => [...printed.values()].join("")

const ask = (path: string, body: object, token: string) =>
  fetch(gateway.url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  })

/** Makes a call; its id. */
async function callBy(own_key: string): Promise<string> {
  const messages = [{ role: "user", content: "hello" }]
  const answer = await ask("/v1/chat/completions", { model: "demo-small", messages, max_tokens: 1 }, own_key)
  await answer.text()
  return answer.headers.get("x-request-id") ?? "none"
}

/** The ids of a new account with 10 USD, of its key and its budget, and of a call with the key. */
async function customer() {
  const made = async (path: string, body: object): Promise<Readonly<Record<string, string>>> =>
    JSON.parse(await (await ask(path, body, admin_token)).text())
  const { id: ACCOUNT = "none" } = await made("/admin/accounts", { name: crypto.randomUUID() })
  await made(`/admin/accounts/${ACCOUNT}/credits`, { amount: "10" })
  const { id: KEY_ID = "none", key: KEY = "none" } = await made(`/admin/accounts/${ACCOUNT}/keys`, {})
  const of_all = { name: "All calls", selector: "all", amount: "500", per: "month" }
  const { id: BUDGET = "none" } = await made(`/admin/accounts/${ACCOUNT}/budgets`, of_all)
  return { ACCOUNT, KEY_ID, KEY, BUDGET, CALL: await callBy(KEY) }
}

test("the start message: an account that no page creates again", async () => {
  const steps = [...gateway.printed.matchAll(/^ {2}(\S.* run tollgate .*?) {2,}/gm)].map(([, step]) => step)
  expect(steps).toHaveLength(4)
  const { code, out, err } = await shell(steps.join("\n"), here({ TOLLGATE_ADMIN_TOKEN: "" }))
  expect({ code, err }).toEqual({ code: 0, err: expect.not.stringContaining("same name") })
  expect(out).toContain("Acme")
})

test("README.md", async () => {
  const said = await walk("README.md", here({ KEY: "none" }))
  expect(said.get("A first call")).toContain("data: [DONE]")
  expect(said.get("A first call")).toContain("completion_tokens")
})

test("docs/administration.md", async () => {
  const said = whole(await walk("docs/administration.md", here(await customer())))
  expect(said).toContain("Ajax")
  expect(said).toContain("✓")
  expect(said).not.toContain('"type":"error"')
})

test("docs/events.md", async () => {
  await callBy(key)
  const said = whole(await walk("docs/events.md", here()))
  expect(said).toContain("tollgate.call.ended")
  expect(said).toContain('"specversion":"1.0"')
  expect(said).not.toContain('"type":"error"')
})

test("docs/budgets.md", async () => {
  const said = whole(await walk("docs/budgets.md", here(await customer(), { "gpt-5-mini": "demo-small" })))
  expect(said).toContain("Search team")
  expect(said).toContain("group acme/search/anna")
  expect(said).toMatch(/100000 tokens per minute \(UTC\)/)
  expect(said).toMatch(/900\.00 USD until/)
  expect(said).toContain("Deleted the budget")
  expect(said).toMatch(/"admitted":true,.*"budgets":\[.*"name":"Organisation"/)
  expect(said).toMatch(/ changed +configured +Agreed with finance +All calls: 750 usd per month; hard/)
})

test("docs/finance.md", async () => {
  // The page is about the account of the demo.
  await callBy(key)
  const now = new Date().toISOString()
  const month = { "MONTH=2026-11 TO=2026-12-01": `MONTH=${now.slice(0, 7)} TO=${now}` }
  // The month is not over: the refund of the page comes after `now`. The other pages left many accounts.
  const others = {
    "voided --from $MONTH-01 --to $TO": "voided --from $MONTH-01 --to 2100-01-01",
    "accounts --all": "accounts --limit 2",
  }
  const said = whole(await walk("docs/finance.md", here({}, { ...month, ...others })))
  const statements = [...new Bun.Glob("statement-*.html").scanSync({ cwd: place.folder })]
  expect(statements).toHaveLength(2)
  expect(said).toMatch(/^specversion,.*\n(.*\n)*.*tollgate\.credit\.added,.*,refund,/m)
  expect(said).toMatch(/^MODEL .*COST/m)
  expect(said).toMatch(/^UPSTREAM .*demo-small/ms)
  expect(said).toMatch(/^closing balance /m)
  expect(said).toMatch(/^refunded /m)
  expect(said).toMatch(/ configured /)
})

test("docs/billing.md", async () => {
  const own = await customer()
  const said = await walk("docs/billing.md", here(own, { "gpt-5-mini": "demo-small" }))
  const printed = (section: string) => said.get(section) ?? ""
  expect(printed("A price multiplier")).toContain('"price_multiplier":"1.25"')
  for (const text of ["× 0.9", "input 0.2, output 1.6", "Contract 118"])
    expect(printed("Prices of one customer")).toContain(text)
  for (const text of ["× 0.85", "input 0.2, output 1.6", "Contract 118"])
    expect(printed("Price lists")).toContain(text)
  expect(printed("Spending limits of a key")).toContain('"spending_limit":{"amount":"25","per":"day"}')
  const labelled = printed("Whose call it was, and what for")
  for (const text of ['"labels":{"team":"search"}', '"group":"search"', '"name":"ann@example.com"'])
    expect(labelled).toContain(text)
  const looked_up = printed("Looking it up")
  expect(looked_up).toMatch(/"name":"batch jobs".*"key":"tg_live_/s)
  expect(looked_up).not.toContain('"type":"error"')
  const [receipt, calls, account, usage, statement, quote] = looked_up
    .split(/(?<=\})\s*(?=\{"(?:id|data|from|model|account_id)")/)
    .map((text) => JSON.parse(text.trim().split("\n")[0] ?? ""))
  expect(receipt).toMatchObject({ id: own.CALL, state: "settled", charge: expect.any(String) })
  expect(calls.data.map(({ model }: { model: string }) => model)).toContain("demo-small")
  expect(account).toMatchObject({ available: expect.any(String), key: { suspended: false } })
  expect(usage).toMatchObject({ by: "model", total: { calls: 2 } })
  expect(statement).toMatchObject({ account_id: own.ACCOUNT, closing: account.balance })
  expect(quote).toMatchObject({ model: "demo-small", admitted: true, max_tokens: 200 })
})

describe("the other blocks", () => {
  test("every configuration is one that the loader takes", () => {
    const files = blocks.filter(({ language }) => language === "yaml")
    for (const block of files) {
      const keys = { OPENAI_API_KEY: "sk-openai", ANTHROPIC_API_KEY: "sk-anthropic" }
      const env = { ...keys, OIDC_CLIENT_SECRET: "secret" }
      const { models, oidc } = loadConfig(block.text, { env, readFile: () => "" })
      expect(models.length > 0 || oidc !== null).toBeTrue()
      done.add(placeOf(block))
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

/** Room for two starts and many commands on a busy machine. */
const WALK_MS = 300_000

/** Starts a gateway as the page says, in the background, until the shell ends, which goes on as the page does in a second terminal. */
const START = `if [ -e tollgate.yaml ]; then
  "$BUN" "$GATEWAY" > started.log 2>&1 &
  export STARTED=$!
  trap 'kill -TERM $STARTED && wait $STARTED' EXIT
  until grep -q "^tollgate listening on" started.log; do kill -0 $STARTED || { cat started.log; return 1; }; sleep 0.1; done
fi
`

test(
  "docs/getting-started.md, from the demo to a gateway with a provider",
  async () => {
    const PAGE = "docs/getting-started.md"
    const SECTION = "From the demo to real providers"
    const provider = await startProvider()
    const models = { object: "list", data: [{ id: "gpt-5-mini-2025-08-07", object: "model" }] }
    const completion = chatCompletion("Hello", { usage: usage(9, 3) })
    provider.reply((exchange) =>
      json(200, exchange.request.path.endsWith("/models") ? models : completion)(exchange),
    )
    writeFileSync(join(place.folder, "start.sh"), START)
    const own = { KEY: "none", TOLLGATE_URL: "", TOLLGATE_ADMIN_TOKEN: "", PORT: new URL(gateway.url).port }
    const demo = here({ ...own, BUN: process.execPath, GATEWAY: GATEWAY_FILE })
    const words: Record<string, string> = {
      ...demo.words,
      ...{ "npx -y bun@1.4.5 run start": ". ./start.sh", "sk-…": "sk-openai" },
    }
    const [yaml] = take(PAGE, "yaml")
    const said = await walk(PAGE, { ...demo, words }, async ({ text }, terminal, printed) => {
      if (text.startsWith("admin()")) terminal.set({ TOLLGATE_ADMIN_TOKEN: admin_token })
      if (text.includes("mkdir")) {
        const file = yaml?.text.replace("https://api.openai.com/v1", `${provider.url}/v1`) ?? ""
        writeFileSync(join(place.folder, "tollgate.yaml"), file)
        gateway.signal("SIGTERM")
        expect(await gateway.exited).toBe(0)
        // It listens where the demo did, which is not the port of the page.
        terminal.set({ TOLLGATE_URL: gateway.url })
      }
      words["tg_live_…"] = /tg_live_\w{36}/.exec(printed.get(SECTION) ?? "")?.[0] ?? "none"
    })
    await provider.stop()
    const first = said.get("A first streamed call")
    for (const text of ['"role":"assistant"', "data: [DONE]", "settled", "charge"])
      expect(first).toContain(text)
    const own_account = said.get("An account of your own")
    for (const text of ["Globex", '"amount":"25"', '"id":"demo-large"']) expect(own_account).toContain(text)
    expect(own_account).toMatch(/tg_live_\w{36}/)
    const real = said.get(SECTION)
    expect(real).toContain("✓")
    expect(real).not.toContain("✗")
    expect(real).toContain('"content":"Hello"')
    expect(real).toMatch(/^\S.* gpt-5-mini /m)
  },
  WALK_MS,
)

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
  expect(blocks.map(placeOf).filter((block) => !done.has(block))).toEqual([])
  for (const [page, file] of Object.entries(ELSEWHERE)) {
    expect(pages).toContain(page)
    expect(textOf(file)).toContain(page)
  }
})

test("what no test runs as it stands is a list, each with its reason, and only on pages with a test of their own", () => {
  for (const [page, reasons] of Object.entries(LEFT_OUT)) {
    expect(Object.keys(ELSEWHERE)).toContain(page)
    const texts = programsOf(page).map(({ text }) => text)
    for (const [word, reason] of Object.entries(reasons)) {
      expect([word, texts.filter((text) => text.includes(word)).length]).toEqual([word, 1])
      expect(reason).toMatch(/^(?:needs|changes) /)
      const named = [...reason.matchAll(/test\/[\w/-]+(?:\.test\.ts)?/g)].map(([path]) => path)
      expect(named.length).toBeGreaterThan(0)
      expect(named.filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
    }
  }
  const walked = pages.filter((page) => blocksToRun(page).length > 0)
  // Each goes through `blocksToRun` of its page, so it runs what is not in the list.
  for (const page of walked)
    expect([page, textOf(ELSEWHERE[page] ?? "test/docs/pages.test.ts").includes("blocksToRun(")]).toEqual([
      page,
      true,
    ])
})

import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { max } from "drizzle-orm"
import { connect, type SocketAddress } from "../../src/ledger/database/address.ts"
import { openDatabase } from "../../src/ledger/database/database.ts"
import type { PriceTerms } from "../../src/ledger/entries.ts"
import { registerTerms } from "../../src/ledger/money/terms.ts"
import { terms } from "../../src/ledger/schema/tables.ts"
import type { GatewayProcess } from "../process/gateway-process.ts"
import { databaseVariables, readLedger, Workplace } from "../process/workplace.ts"
import { emptyDatabase, type FreshDatabase, freshDatabase } from "../support/database.ts"
import { chat } from "../support/gateway.ts"
import { ADMIN_TOKEN, operatorOf } from "../support/operator.ts"
import { chatCompletion, json, startProvider } from "../support/provider.ts"
import { type Block, blocksOf, blocksUnder } from "./blocks.ts"
import { connectionOf, OlderPostgres, older } from "./older-postgres.ts"
import { type Place, play, run } from "./shell.ts"

/** Terms of a model that nobody has sold yet. */
function termsOf(model: string): PriceTerms {
  const price = { input_pico: 1n, cached_input_pico: 1n, output_pico: 1n, per_call_nano: 0n }
  return { family: "chat", model, upstream: "first", price }
}

/** Every command of docs/operating.md is run here, on a real gateway. */

const PAGE = "docs/operating.md"
const under = (section: string, language = "sh"): readonly Block[] => blocksUnder(PAGE, section, language)
const played = new Set<string>()

/** The n-th block of a section, from 0. */
function block(section: string, at = 0, language = "sh"): readonly Block[] {
  const found = under(section, language)[at]
  if (found === undefined) throw new Error(`${PAGE} has no such block under ${section}`)
  played.add(`${found.language} ${found.line}`)
  return [found]
}

if (older === null) console.warn("SKIPPED: no older Postgres, so no dump is restored and no ledger is moved")

describe("the embedded database, by docs/operating.md", () => {
  const place = new Workplace()
  let gateway: GatewayProcess
  let account: { id: string; key: string; key_id: string }
  afterAll(() => place.clear())

  const here = (env: Record<string, string> = {}): Place => ({
    folder: place.folder,
    env: { PID: String(gateway.pid), TOLLGATE_URL: gateway.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN, ...env },
  })
  const balance = async () => (await operatorOf(gateway.url).balance(account.id)).balance
  const socket = (data_dir = place.data_dir): SocketAddress => {
    const [, , , , folder = ""] = readFileSync(
      join(data_dir, "postgres/cluster/postmaster.pid"),
      "utf8",
    ).split("\n")
    return { socket_path: join(folder, ".s.PGSQL.5432"), user: "tollgate", database: "tollgate" }
  }
  const call = async () => {
    const answer = await chat(gateway, account.key, { model: "demo-small", max_tokens: 2 })
    expect(answer.status).toBe(200)
    await answer.bytes()
  }
  /** Says something to the database, as nobody should. */
  const tell = async (text: string) => {
    const client = connect(socket(), { max: 1, onnotice: () => {} })
    await client.unsafe(text).finally(() => client.end())
  }
  let at_backup = "none"

  test("it is looked at while it runs, and dumped by a pg_dump that is new enough", async () => {
    gateway = await place.start()
    account = await operatorOf(gateway.url).account()
    await call()
    const [dump, look] = [
      block("Backing up the embedded database", 2),
      block("Backing up the embedded database", 3),
    ]
    expect(await play(block("The spool"), here()).catch(() => "no folder")).toBe("no folder")
    if (older === null) return
    expect(await play(look, here())).toMatch(/settled +\| +1 \|/)
    const { code, err } = await run(dump, here())
    if (code !== 0) expect(err).toContain("server version mismatch")
  })

  test("it is stopped and copied, and the copy brings back the ledger of that moment", async () => {
    await play(block("Backing up the embedded database", 0), here())
    expect(await gateway.exited).toBe(0)
    expect(existsSync(join(place.folder, "backup/postgres/cluster/PG_VERSION"))).toBeTrue()
    gateway = await place.start()
    at_backup = await balance()
    await call()
    expect(await balance()).not.toBe(at_backup)
    await play(block("Stopping and starting"), here())
    expect(await gateway.exited).toBe(0)
    await play(block("Backing up the embedded database", 1), here())
    gateway = await place.start()
    expect(await balance()).toBe(at_backup)
  })

  test("its audit is clean; what was written by hand is found, and set right by the page's SQL", async () => {
    expect((await run(block("The audit"), here())).code).toBe(0)
    expect((await run(block("Past balances"), here({ ACCOUNT: account.id }))).code).toBe(0)
    expect((await run(block("Sums of hours and days"), here())).code).toBe(0)
    expect((await run(block("The months of the journal"), here())).code).toBe(0)
    await tell(`UPDATE tollgate.accounts SET balance_nano = 1, held_nano = 2 WHERE id = '${account.id}'`)
    expect((await run(block("The audit"), here())).code).toBe(1)
    await tell(block("The audit", 0, "sql")[0]?.text.replaceAll(":'account'", `'${account.id}'`) ?? "")
    expect((await run(block("The audit"), here())).code).toBe(0)
    expect(await balance()).toBe(at_backup)
  })

  test("a client's key is replaced", async () => {
    const said = await play(
      block("Rotating a client's key"),
      here({ ACCOUNT: account.id, KEY_ID: account.key_id }),
    )
    expect(said).toContain("production-2")
    expect((await chat(gateway, account.key, { model: "demo-small", max_tokens: 2 })).status).toBe(401)
  })

  test.skipIf(older === null)(
    "its ledger is moved to a server of an older version, and from there by a dump to a newer one",
    async () => {
      const bin = older ?? ""
      const external = new OlderPostgres(bin)
      const newer = await emptyDatabase()
      try {
        // What a start leaves there.
        const made = await openDatabase(external.address)
        await registerTerms(made.operators, [termsOf("a"), termsOf("b")])
        await made.close()
        const PATH = `${bin}:${process.env.PATH}`
        for (const at of [0, 1])
          await play(
            block("Moving the ledger", at),
            here({ PATH, FROM: connectionOf(socket()), TO: external.url }),
          )
        const ledger = await readLedger(socket())
        expect(ledger).toMatchObject({ violations: [], open_holds: 0 })
        expect(ledger.calls.length).toBeGreaterThan(0)
        expect(await readLedger(external.address)).toEqual(ledger)
        if ("url" in newer.address) throw new Error("the test cluster is reached by its socket")
        const dumped = { PATH, DATABASE_URL: external.url, RESTORED_URL: connectionOf(newer.address) }
        await play(block("Backing up an external database", 0), here(dumped))
        await play(block("Backing up an external database", 1), here(dumped))
        for (const address of [external.address, newer.address]) {
          const moved = await openDatabase(address)
          const [known] = await moved.operators.select({ most: max(terms.id) }).from(terms)
          expect(await registerTerms(moved.operators, [termsOf("new")])).toEqual([(known?.most ?? 0) + 1])
          await moved.close()
          expect(await readLedger(address)).toEqual(ledger)
        }
      } finally {
        external.stop()
        await newer.drop()
      }
    },
  )

  test.skipIf(older === null)("its ledger is moved to another data directory", async () => {
    const other = new Workplace()
    const made = await other.start({ HOST: "127.0.0.1" })
    made.signal("SIGKILL")
    await made.exited
    const PATH = `${older}:${process.env.PATH}`
    const to = socket(other.data_dir)
    for (const at of [0, 1])
      await play(
        block("Moving the ledger", at),
        here({ PATH, FROM: connectionOf(socket()), TO: connectionOf(to) }),
      )
    const moved = await other.start()
    expect(moved.printed).toContain("embedded Postgres adopted")
    expect(await operatorOf(moved.url).balance(account.id)).toEqual(
      await operatorOf(gateway.url).balance(account.id),
    )
    expect(await readLedger(to)).toEqual(await readLedger(socket()))
    await other.clear()
  })

  test("the tables that are moved are all there are", async () => {
    const client = connect(socket(), { max: 1 })
    const rows = await client<{ tablename: string }[]>`SELECT relname AS tablename FROM pg_class
      WHERE relnamespace = 'tollgate'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`
    await client.end()
    const [, named = ""] = /for table in ([^;]+);/.exec(under("Moving the ledger")[1]?.text ?? "") ?? []
    const derived = [
      "days",
      "day_latencies",
      "hours",
      "hour_latencies",
      "summed",
      "months",
      "label_days",
      "seals",
      "seal_hours",
      "seal_sums",
    ]
    const kept = rows.map(({ tablename }) => tablename).filter((name) => !derived.includes(name))
    expect(named.split(" ").sort()).toEqual(kept.sort())
    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
  })

  test("a cluster of another major version is refused with the words of the page, and left as it is", async () => {
    const version = join(place.data_dir, "postgres/cluster/PG_VERSION")
    const before = readFileSync(version, "utf8")
    writeFileSync(version, "17\n")
    const refused = place.spawn()
    expect(await refused.exited).toBe(1)
    expect(refused.complaint).toContain("database files are incompatible with server")
    writeFileSync(version, before)
  })
})

describe("the rotation of secrets, by docs/operating.md", () => {
  const place = new Workplace()
  const words = { "/etc/tollgate": place.folder, "https://api.openai.com/v1": "" }
  let provider: Awaited<ReturnType<typeof startProvider>>
  let database: FreshDatabase
  let gateway: GatewayProcess
  const here = (env: Record<string, string> = {}): Place => ({
    folder: place.folder,
    env: { PID: String(gateway.pid), ...env },
    words: { "/etc/tollgate": place.folder },
  })

  beforeAll(async () => {
    provider = await startProvider()
    provider.reply(json(200, chatCompletion("hello")))
    database = await freshDatabase()
  })
  afterAll(async () => {
    await place.clear()
    await database.drop()
    await provider.stop()
  })

  test("a provider's key changes with the file that the configuration names", async () => {
    const [yaml] = block("Rotating a provider's key", 0, "yaml")
    const text = Object.entries({ ...words, "https://api.openai.com/v1": `${provider.url}/v1` }).reduce(
      (said, [word, mine]) => said.replaceAll(word, mine),
      yaml?.text ?? "",
    )
    writeFileSync(join(place.folder, "tollgate.yaml"), text)
    writeFileSync(join(place.folder, "openai-key"), "sk-old")
    writeFileSync(join(place.folder, "admin-token"), ADMIN_TOKEN)
    gateway = await place.start({
      ...databaseVariables(database.address),
      TOLLGATE_ADMIN_TOKEN: "",
      TOLLGATE_ADMIN_TOKEN_FILE: join(place.folder, "admin-token"),
    })
    const { key } = await operatorOf(gateway.url).account()
    const shown = async () => {
      await (await chat(gateway, key, { model: "gpt-5-mini" })).bytes()
      return provider.requests.at(-1)?.headers.authorization
    }
    expect(await shown()).toBe("Bearer sk-old")
    await play(block("Rotating a provider's key"), here({ NEW_KEY: "sk-new" }))
    await gateway.prints("its new content is in use")
    expect(await shown()).toBe("Bearer sk-new")
  })

  test("the admin token changes with its file and a restart", async () => {
    const status = async (token: string) => {
      const headers = { authorization: `Bearer ${token}` }
      return (await fetch(`${gateway.url}/admin/accounts`, { headers })).status
    }
    expect(await status(ADMIN_TOKEN)).toBe(200)
    await play(block("Rotating the admin token"), here())
    expect(await gateway.exited).toBe(0)
    gateway = await place.start({
      ...databaseVariables(database.address),
      TOLLGATE_ADMIN_TOKEN: "",
      TOLLGATE_ADMIN_TOKEN_FILE: join(place.folder, "admin-token"),
    })
    const token = readFileSync(join(place.folder, "admin-token"), "utf8").trim()
    expect(token.length).toBeGreaterThanOrEqual(32)
    expect([await status(ADMIN_TOKEN), await status(token)]).toEqual([401, 200])
    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
  })
})

test.skipIf(older === null)("every block of the page was run", () => {
  const all = blocksOf(PAGE).map(({ language, line }) => `${language} ${line}`)
  expect([...played].sort()).toEqual(all.sort())
})

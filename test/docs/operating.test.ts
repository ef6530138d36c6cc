import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { max } from "drizzle-orm"
import { connect, type SocketAddress } from "../../src/ledger/database/address.ts"
import { openDatabase } from "../../src/ledger/database/database.ts"
import type { PriceTerms } from "../../src/ledger/entries.ts"
import { registerTerms } from "../../src/ledger/money/terms.ts"
import { terms } from "../../src/ledger/schema/tables.ts"
import type { GatewayProcess, Variables } from "../process/gateway-process.ts"
import { databaseVariables, readLedger, Workplace } from "../process/workplace.ts"
import { emptyDatabase, type FreshDatabase, freshDatabase, withSql } from "../support/database.ts"
import { chat, until } from "../support/gateway.ts"
import { ADMIN_TOKEN, operatorOf } from "../support/operator.ts"
import { HELLO, startProvider } from "../support/provider.ts"
import { type Block, blocksOf, blocksUnder } from "./blocks.ts"
import { blocksToRun } from "./left-out.ts"
import { connectionOf, OlderPostgres, older } from "./older-postgres.ts"
import { type Said, Terminal } from "./shell.ts"

/** Terms of a model that nobody has sold yet. */
function termsOf(model: string): PriceTerms {
  const price = { input_pico: 1n, cached_input_pico: 1n, output_pico: 1n, per_call_nano: 0n }
  return { family: "chat", model, upstream: "first", price }
}

/** Every command of docs/operating.md is run here, in the order of the page and in one shell, on real gateways. */

const PAGE = "docs/operating.md"
const under = (section: string, language = "sh"): readonly Block[] => blocksUnder(PAGE, section, language)
const played: string[] = []
const place = new Workplace()
const terminal = new Terminal({
  folder: place.folder,
  words: { "/etc/tollgate": place.folder, " .tollgate": " data" },
})
let gateway: GatewayProcess
afterAll(async () => {
  await terminal.close()
  await place.clear()
})

/** The n-th block of a section, from 0. */
function block(section: string, at = 0, language = "sh"): Block {
  const found = under(section, language)[at]
  if (found === undefined) throw new Error(`${PAGE} has no such block under ${section}`)
  const { line } = found
  if (!played.includes(`${language} ${line}`)) played.push(`${language} ${line}`)
  return found
}
const play = (section: string, at = 0): Promise<string> => terminal.play(block(section, at))
const run = (section: string, at = 0): Promise<Said> => terminal.run(block(section, at))

/** Starts a gateway, which the shell knows from then on. */
async function start(variables: Variables = {}, token = ADMIN_TOKEN): Promise<void> {
  gateway = await place.start(variables)
  terminal.set({ PID: String(gateway.pid), TOLLGATE_URL: gateway.url, TOLLGATE_ADMIN_TOKEN: token })
}

async function stop(): Promise<void> {
  gateway.signal("SIGTERM")
  expect(await gateway.exited).toBe(0)
}

if (older === null) console.warn("SKIPPED: no older Postgres, so no dump is restored and no ledger is moved")

describe("the embedded database, by docs/operating.md", () => {
  let account: { id: string; key: string; key_id: string }

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

  test("it is stopped, copied, and the copy brings back the ledger of that moment", async () => {
    await start()
    account = await operatorOf(gateway.url).account()
    await call()
    await play("Stopping and starting")
    expect(await gateway.exited).toBe(0)
    await start()
    await play("Backing up the embedded database")
    expect(await gateway.exited).toBe(0)
    expect(existsSync(join(place.folder, "backup/postgres/cluster/PG_VERSION"))).toBeTrue()
    await start()
    const at_backup = await balance()
    await call()
    // The end of the call may still be on its way (D32).
    await until(balance, (now) => now !== at_backup)
    await stop()
    await play("Backing up the embedded database", 1)
    await start()
    expect(await balance()).toBe(at_backup)
  })

  test.skipIf(older === null)("it is dumped by a pg_dump that is new enough, and looked at", async () => {
    const { code, err } = await run("Backing up the embedded database", 2)
    if (code !== 0) expect(err).toContain("server version mismatch")
    expect(await play("Backing up the embedded database", 3)).toMatch(/settled +\| +1 \|/)
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
        terminal.set({ PATH: `${bin}:${process.env.PATH}`, FROM: connectionOf(socket()), TO: external.url })
        for (const at of [0, 1]) await play("Moving the ledger", at)
        const ledger = await readLedger(socket())
        expect(ledger).toMatchObject({ violations: [], open_holds: 0 })
        expect(ledger.calls.length).toBeGreaterThan(0)
        expect(await readLedger(external.address)).toEqual(ledger)
        if ("url" in newer.address) throw new Error("the test cluster is reached by its socket")
        terminal.set({ DATABASE_URL: external.url, RESTORED_URL: connectionOf(newer.address) })
        for (const at of [0, 1]) await play("Backing up an external database", at)
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
    const to = socket(other.data_dir)
    terminal.set({ FROM: connectionOf(socket()), TO: connectionOf(to) })
    for (const at of [0, 1]) await play("Moving the ledger", at)
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
    await stop()
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

describe("a gateway with a configuration, by docs/operating.md", () => {
  let provider: Awaited<ReturnType<typeof startProvider>>
  let database: FreshDatabase
  let account: { id: string; key: string; key_id: string }
  const token_file = join(place.folder, "admin-token")
  const variables = () => ({
    ...databaseVariables(database.address),
    TOLLGATE_ADMIN_TOKEN: "",
    TOLLGATE_ADMIN_TOKEN_FILE: token_file,
  })
  /** Says something to the database, as nobody should. */
  const tell = (text: string) => withSql(database.address, (sql) => sql.unsafe(text))

  beforeAll(async () => {
    provider = await startProvider()
    provider.reply(HELLO)
    database = await freshDatabase()
  })
  afterAll(async () => {
    await place.killGateways()
    await database.drop()
    await provider.stop()
  })

  test("a provider's key changes with the file that the configuration names", async () => {
    const text = block("Rotating a provider's key", 0, "yaml")
      .text.replaceAll("/etc/tollgate", place.folder)
      .replaceAll("https://api.openai.com/v1", `${provider.url}/v1`)
    writeFileSync(join(place.folder, "tollgate.yaml"), text)
    writeFileSync(join(place.folder, "openai-key"), "sk-old")
    writeFileSync(token_file, ADMIN_TOKEN)
    await start(variables())
    account = await operatorOf(gateway.url).account()
    const shown = async () => {
      await (await chat(gateway, account.key, { model: "gpt-5-mini" })).bytes()
      return provider.requests.at(-1)?.headers.authorization
    }
    expect(await shown()).toBe("Bearer sk-old")
    terminal.set({ NEW_KEY: "sk-new" })
    await play("Rotating a provider's key")
    await gateway.prints("its new content is in use")
    expect(await shown()).toBe("Bearer sk-new")
  })

  test("the admin token changes with its file and a restart", async () => {
    const status = async (token: string) => {
      const headers = { authorization: `Bearer ${token}` }
      return (await fetch(`${gateway.url}/admin/accounts`, { headers })).status
    }
    expect(await status(ADMIN_TOKEN)).toBe(200)
    await play("Rotating the admin token")
    expect(await gateway.exited).toBe(0)
    const token = readFileSync(token_file, "utf8").trim()
    await start(variables(), token)
    expect(token.length).toBeGreaterThanOrEqual(32)
    expect([await status(ADMIN_TOKEN), await status(token)]).toEqual([401, 200])
  })

  test("a client's key is replaced", async () => {
    terminal.set({ ACCOUNT: account.id, KEY_ID: account.key_id })
    const keys = (await play("Rotating a client's key")).match(/tg_live_\w{36}/g) ?? []
    const status = async (key: string) =>
      (await chat(gateway, key, { model: "gpt-5-mini", max_tokens: 2 })).status
    expect(await Promise.all([account.key, ...keys].map(status))).toEqual([401, 401, 200])
  })

  test("its audit is clean; what was written by hand is found, and set right by the page's SQL", async () => {
    const balances = () =>
      tell(`SELECT balance_nano, held_nano FROM tollgate.accounts WHERE id = '${account.id}'`)
    const before = await balances()
    expect((await run("The audit")).code).toBe(0)
    await tell(`UPDATE tollgate.accounts SET balance_nano = 1, held_nano = 2 WHERE id = '${account.id}'`)
    expect((await terminal.run(block("The audit"))).code).toBe(1)
    await tell(block("The audit", 0, "sql").text.replaceAll(":'account'", `'${account.id}'`))
    expect((await run("The audit")).code).toBe(0)
    expect(await balances()).toEqual(before)
  })

  test("months, sums and past balances are read, and the spool is empty", async () => {
    for (const section of ["The months of the journal", "Sums of hours and days", "Past balances"])
      await play(section)
    const { code, out } = await run("The spool")
    if (code === 0) expect(out).toBe("")
    await stop()
  })
})

test.skipIf(older === null)("every block of the page was run, in its order", () => {
  const all = blocksOf(PAGE).map(({ language, line }) => `${language} ${line}`)
  expect(played).toEqual(all)
  expect(blocksToRun(PAGE).map(({ line }) => `sh ${line}`)).toEqual(
    all.filter((one) => one.startsWith("sh ")),
  )
})

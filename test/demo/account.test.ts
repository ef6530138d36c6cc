import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test"
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { checksumHolds, hashOf, makeKey } from "../../src/admission/key.ts"
import { demoAccount } from "../../src/demo/account.ts"
import { nextId } from "../../src/id.ts"
import { createAccount, listAccounts } from "../../src/ledger/accounts/accounts.ts"
import { credit, creditsBefore } from "../../src/ledger/accounts/credits.ts"
import { listKeys } from "../../src/ledger/accounts/keys.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import { openDatabase } from "../../src/ledger/database/database.ts"
import { keys } from "../../src/ledger/schema/tables.ts"
import { freshDatabase } from "../support/database.ts"
import { thrown } from "../support/thrown.ts"

const PAGE = { limit: 100, after: null }

let data_dir: string

const fresh = await freshDatabase()
const drop: () => Promise<void> = fresh.drop
const database = await openDatabase(fresh.address)
afterAll(async () => {
  await database.close()
  await drop()
})
beforeEach(async () => {
  data_dir = await mkdtemp(join(tmpdir(), "tollgate-demo-"))
})
afterEach(() => rm(data_dir, { recursive: true, force: true }))

async function identity(): Promise<{ account_id: string; credit_id: string; key: string }> {
  return JSON.parse(await readFile(join(data_dir, "demo-key"), "utf8"))
}

async function standing() {
  const { account_id } = await identity()
  const { data: accounts } = await listAccounts(database.operators, PAGE)
  const account = accounts.find(({ id }) => id === account_id)
  const credits = await creditsBefore(database.operators, account_id, null, PAGE.limit)
  const { data: made } = await listKeys(database.operators, account_id, PAGE)
  return { balance_nano: account?.balance_nano, credits: credits.length, keys: made.length }
}

const WHOLE = { balance_nano: 10_000_000_000n, credits: 1, keys: 1 }

describe("D37: the demo's account", () => {
  test("has 10 USD and one key, whose hash is in the ledger", async () => {
    const key = await demoAccount(database.operators, data_dir)
    expect(checksumHolds(key)).toBeTrue()
    expect(await standing()).toEqual(WHOLE)
    const hashes = (await database.operators.select({ hash: keys.hash }).from(keys)).map(({ hash }) => hash)
    expect(hashes).toContain(hashOf(key))
  })

  test("is the same after a restart, and so is its key", async () => {
    const first = await demoAccount(database.operators, data_dir)
    expect(await demoAccount(database.operators, data_dir)).toBe(first)
    expect(await standing()).toEqual(WHOLE)
  })

  test("of another data directory is another one", async () => {
    const first = await demoAccount(database.operators, data_dir)
    expect(await demoAccount(database.operators, join(data_dir, "other"))).not.toBe(first)
  })

  test("is kept in a file that only its owner reads, and that stays so", async () => {
    await demoAccount(database.operators, data_dir)
    const path = join(data_dir, "demo-key")
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    await chmod(path, 0o644)
    await demoAccount(database.operators, data_dir)
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(await readdir(data_dir)).toEqual(["demo-key"])
  })

  const steps: [name: string, steps: number][] = [
    ["its file", 0],
    ["its account", 1],
    ["its credit", 2],
  ]
  test.each(steps)(
    "is completed by the next start when the first was killed after %s",
    async (_name, done) => {
      const made = { account_id: nextId(), credit_id: nextId(), key: makeKey() }
      await writeFile(join(data_dir, "demo-key"), JSON.stringify(made))
      const { account_id, credit_id } = made
      if (done > 0) await createAccount(database.operators, { id: account_id, name: "Demo" })
      const order = { id: credit_id, account_id, amount_nano: WHOLE.balance_nano, reason: "Demo" }
      if (done > 1) await credit(database.operators, order)
      expect(await demoAccount(database.operators, data_dir)).toBe(made.key)
      expect(await standing()).toEqual(WHOLE)
    },
  )

  test.each([
    ["empty", ""],
    ["cut", '{"account_id": "019f'],
    ["of something else", '{"account_id":"x","credit_id":"y","key":"z"}'],
  ])("is never replaced because its file is %s: the start says so", async (_name, text) => {
    await writeFile(join(data_dir, "demo-key"), text)
    expect(String(await thrown(demoAccount(database.operators, data_dir)))).toContain(
      "demo-key was not written by the demo",
    )
  })

  test("leaves the ledger in order", async () => {
    expect((await audit(database.operators)).violations).toEqual([])
  })
})

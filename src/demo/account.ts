import { chmod, mkdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { checksumHolds, hashOf, makeKey, prefixOf } from "../admission/key.ts"
import { isId, nextId } from "../id.ts"
import { createAccount } from "../ledger/accounts/accounts.ts"
import { credit } from "../ledger/accounts/credits.ts"
import { createKey, listKeys } from "../ledger/accounts/keys.ts"
import type { Db } from "../ledger/database/statement.ts"
import { objectOf, parseJson } from "../wire/usage.ts"
import { OWNER_ONLY, writePrivately } from "./access.ts"

const CREDIT_NANO = 10_000_000_000n
const FILE = "demo-key"

/** The demo's key (D37). Its ids are on disk before the database, so that the next start completes a killed one. */
export async function demoAccount(database: Db, data_dir: string): Promise<string> {
  const { account_id, credit_id, key } = await identity(data_dir)
  await createAccount(database, { id: account_id, name: "Demo" })
  const given = await credit(database, {
    id: credit_id,
    account_id,
    amount_nano: CREDIT_NANO,
    reason: "Demo",
  })
  if (given.outcome !== "credited" && given.outcome !== "known") {
    throw new Error(`the demo could not credit its account: ${given.outcome}`)
  }
  const { data: keys } = await listKeys(database, account_id, { limit: 1, after: null })
  if (keys.length === 0) {
    await createKey(database, {
      id: nextId(),
      spending: null,
      account_id,
      name: "Demo",
      hash: hashOf(key),
      prefix: prefixOf(key),
      models: null,
      expires_at: null,
    })
  }
  return key
}

/** The key of the demo, and the ids under which its account and credit are made. */
async function identity(data_dir: string) {
  const path = join(data_dir, FILE)
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return null
    throw error
  })
  if (text !== null) {
    await chmod(path, OWNER_ONLY)
    return parse(text, path)
  }
  const made = { account_id: nextId(), credit_id: nextId(), key: makeKey() }
  await mkdir(data_dir, { recursive: true })
  await writePrivately(path, `${JSON.stringify(made, null, 2)}\n`)
  return made
}

function parse(text: string, path: string) {
  const { account_id, credit_id, key } = objectOf(parseJson(text))
  if (isText(account_id, isId) && isText(credit_id, isId) && isText(key, checksumHolds))
    return { account_id, credit_id, key }
  throw new Error(
    `${path} was not written by the demo: remove it, and the demo creates a new account and key`,
  )
}

function isText(value: unknown, fits: (text: string) => boolean): value is string {
  return typeof value === "string" && fits(value)
}

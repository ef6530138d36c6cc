import { PgDialect } from "drizzle-orm/pg-core"
import { drizzle } from "drizzle-orm/postgres-js"
import postgres from "postgres"
import type { Account } from "../../src/ledger/accounts/accounts.ts"

/**
 * Prints the text of every statement of the ledger as a JSON array: those that are compiled when their file is loaded,
 * and those that operators' changes make. Run as a process of its own, before any of these files was loaded.
 */

const texts = new Set<string>()
const compile = PgDialect.prototype.sqlToQuery
PgDialect.prototype.sqlToQuery = function (this: PgDialect, ...given) {
  const query = compile.apply(this, given)
  texts.add(query.sql)
  return query
}

const folder = `${import.meta.dir}/../../src/ledger`
for (const path of new Bun.Glob("**/*.ts").scanSync({ cwd: folder })) await import(`${folder}/${path}`)

const { changeAccount, createAccount } = await import("../../src/ledger/accounts/accounts.ts")
const { changeKey, createKey, revokeKey } = await import("../../src/ledger/accounts/keys.ts")

/** Nothing listens there: what is compiled is never done. */
const client = postgres("postgres://nobody@127.0.0.1:1/none", { connect_timeout: 1, backoff: () => 0 })
const database = drizzle(client)
const id: Account["id"] = crypto.randomUUID()
const spending = { limit_nano: 1n, period: "day" } as const
const key = { id, account_id: id, name: null, hash: "", prefix: "", models: null, expires_at: null }
await Promise.allSettled([
  createAccount(database, { id, name: "a" }),
  changeAccount(database, id, { suspended: true }),
  changeKey(database, id, { suspended: true, spending }),
  createKey(database, { ...key, spending }),
  revokeKey(database, id),
])
await client.end({ timeout: 0 })
console.log(JSON.stringify([...texts]))

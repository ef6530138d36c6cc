import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { Sql } from "postgres"
import { type Address, connect } from "../../src/ledger/database/address.ts"
import { openLedgerDatabase } from "../../src/ledger/database/database.ts"
import { readUnfit } from "../../src/ledger/database/fitness.ts"
import { blocksUnder } from "../docs/blocks.ts"
import { emptyDatabase, type FreshDatabase, freshDatabase } from "../support/database.ts"

/** A database in which a role cannot keep the ledger: `tollgate check` and the start say so, and how to correct it. */

const name = `t${crypto.randomUUID().replaceAll("-", "").slice(0, 12)}`
const LATIN = `${name}_latin`
let empty: FreshDatabase
let made: FreshDatabase
let superuser: Sql

const addressOf = ({ address }: FreshDatabase) => {
  if ("url" in address) throw new Error("the test cluster is reached by its socket")
  return address
}
const as = (role: string, { address }: FreshDatabase): Address => ({
  ...addressOf({ ...empty, address }),
  user: role,
})

beforeAll(async () => {
  empty = await emptyDatabase()
  made = await freshDatabase()
  superuser = connect(empty.address, { max: 1, onnotice: () => {} })
  for (const role of ["owner", "reader"]) await superuser.unsafe(`CREATE ROLE ${name}_${role} LOGIN`)
  await superuser.unsafe(`ALTER ROLE ${name}_reader SET default_transaction_read_only = on`)
  await superuser.unsafe(
    `CREATE DATABASE ${LATIN} ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0`,
  )
})
afterAll(async () => {
  await superuser.unsafe(`DROP DATABASE ${LATIN}`)
  await superuser.end()
  await empty.drop()
  await made.drop()
  const after = connect({ ...addressOf(made), database: "tollgate" }, { max: 1, onnotice: () => {} })
  for (const role of ["owner", "reader"]) await after.unsafe(`DROP ROLE ${name}_${role}`)
  await after.end()
})

describe("a database that cannot have the ledger", () => {
  const owner = `${name}_owner`
  test("is one where the role may not create the schemas; the start says so too", async () => {
    const { database } = addressOf(empty)
    const found = `the role ${owner} may not create the schema tollgate and drizzle`
    const fix = `As an administrator: GRANT CREATE ON DATABASE ${database} TO ${owner}; or CREATE SCHEMA tollgate AUTHORIZATION ${owner}; CREATE SCHEMA drizzle AUTHORIZATION ${owner};`
    expect(await readUnfit(as(owner, empty))).toEqual([found, fix])
    expect(openLedgerDatabase(as(owner, empty))).rejects.toThrow(`cannot use the database: ${found}. ${fix}`)
  })

  test("is one whose schemas are another role's", async () => {
    expect(await readUnfit(as(owner, made))).toEqual([
      `the role ${owner} may not create tables in the schema tollgate and drizzle`,
      `As an administrator: ALTER SCHEMA tollgate OWNER TO ${owner}; ALTER SCHEMA drizzle OWNER TO ${owner};`,
    ])
  })

  test("is one that is read-only for the role", async () => {
    expect(await readUnfit(as(`${name}_reader`, empty))).toEqual([
      `it is read-only for the role ${name}_reader`,
      `Allow writes: ALTER ROLE ${name}_reader RESET default_transaction_read_only.`,
    ])
  })

  test("is one of another encoding, in which a name with other characters could not be written", async () => {
    expect(await readUnfit({ ...addressOf(empty), database: LATIN })).toEqual([
      "its encoding is LATIN1, which cannot keep every name",
      "Create a database with ENCODING 'UTF8' TEMPLATE template0.",
    ])
  })
})

test("docs/deploying.md: the role and the database that the page creates can have the ledger", async () => {
  const [block] = blocksUnder("docs/deploying.md", "Your own Postgres", "sql")
  const text = (block?.text ?? "").replaceAll("tollgate", `${name}_page`)
  for (const statement of text.split(";\n").filter(Boolean)) await superuser.unsafe(statement)
  const address = { ...addressOf(empty), user: `${name}_page`, database: `${name}_page` }
  await (await openLedgerDatabase(address)).close()
  expect(await readUnfit(address)).toBeNull()
  await superuser.unsafe(`DROP DATABASE ${name}_page`)
  await superuser.unsafe(`DROP ROLE ${name}_page`)
})

test("schemas that an administrator made are enough: the role creates the tables in them, and starts again", async () => {
  const owner = `${name}_owner`
  await superuser.unsafe(
    `CREATE SCHEMA tollgate AUTHORIZATION ${owner}; CREATE SCHEMA drizzle AUTHORIZATION ${owner};`,
  )
  expect(await readUnfit(as(owner, empty))).toBeNull()
  for (const _ of [1, 2]) await (await openLedgerDatabase(as(owner, empty))).close()
  const [row] =
    await superuser`SELECT tableowner FROM pg_tables WHERE schemaname = 'tollgate' AND tablename = 'holds'`
  expect(row?.tableowner).toBe(owner)
})

import { afterAll, describe, expect, test } from "bun:test"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { getViewSelectedFields, is } from "drizzle-orm"
import { getTableConfig, PgTable } from "drizzle-orm/pg-core"
import { type Address, connect } from "../../src/ledger/database/address.ts"
import { openDatabase } from "../../src/ledger/database/database.ts"
import * as schema from "../../src/ledger/schema/tables.ts"
import { emptyDatabase, freshDatabase, shutOut } from "../support/database.ts"
import { within } from "../support/fair-clock.ts"

/** The tables as the migrations make them. */

const fresh = await emptyDatabase()
const sql = connect(fresh.address, { max: 1, onnotice: () => {} })
afterAll(async () => {
  await sql.end()
  await fresh.drop()
})

const open = async (address: Address) => (await openDatabase(address)).close()

test("six gateways that start at once migrate an empty database once", async () => {
  await Promise.all(Array.from({ length: 6 }, () => open(fresh.address)))
  const [row] =
    await sql`SELECT count(*)::int AS applied, count(DISTINCT hash)::int AS different FROM drizzle.__drizzle_migrations`
  expect(row?.applied).toBe(row?.different)
  await open(fresh.address)
  const [again] = await sql`SELECT count(*)::int AS applied FROM drizzle.__drizzle_migrations`
  expect(again?.applied).toBe(row?.applied)
})

test("a migration that fails is reported, and holds nobody up", async () => {
  const nowhere = { url: "postgres://nobody@127.0.0.1:1/none" }
  expect(await open(nowhere).catch((error: unknown) => error)).toBeInstanceOf(Error)
})

test("D27: the readers' pools are back as soon as the database is, however often they were asked meanwhile", async () => {
  const { address, drop } = await freshDatabase()
  const db = await openDatabase(address)
  const pools = [db.operators, db.receipts, db.sums]
  const ask = async () => {
    const answers = await Promise.allSettled(pools.map((pool) => pool.execute("SELECT 1")))
    return answers.map(({ status }) => status)
  }
  await ask()
  const { admit } = await shutOut(address)
  for (let times = 0; times < 4; times += 1) {
    const [alone, ...crowded] = [ask(), ...Array.from({ length: times }, ask)]
    for (const answers of [await alone, ...(await Promise.all(crowded))]) {
      expect(answers).toEqual(pools.map(() => "rejected"))
    }
  }
  await admit()
  const back = ask()
  expect(await within(2_000, back)).toBeTrue()
  expect(await back).toEqual(pools.map(() => "fulfilled"))
  await db.close()
  await drop()
})

const FOLDER = join(import.meta.dir, "../../src/ledger/schema")
const modules: object[] = await Promise.all(
  readdirSync(FOLDER)
    .filter((name) => name !== "aliases.ts")
    .map((name) => import(join(FOLDER, name))),
)
const tables = modules.flatMap(Object.values).filter((made) => is(made, PgTable))

test("there are as many tables as the schema names", async () => {
  const rows = await sql`SELECT relname AS table_name FROM pg_class
    WHERE relnamespace = 'tollgate'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname`
  expect(rows.map(({ table_name }) => table_name)).toEqual(
    tables.map((table) => getTableConfig(table).name).sort(),
  )
})

describe.each(tables.map((table) => [getTableConfig(table).name, table] as const))(
  "the migrations make %s",
  (name, table) => {
    test("with the columns and checks of the schema", async () => {
      const rows =
        await sql`SELECT column_name, is_nullable = 'NO' AS required FROM information_schema.columns
        WHERE table_schema = 'tollgate' AND table_name = ${name} ORDER BY column_name`
      const { columns, checks } = getTableConfig(table)
      const expected = columns.map((column) => ({ column_name: column.name, required: column.notNull }))
      expect([...rows]).toEqual(expected.sort((one, other) => (one.column_name < other.column_name ? -1 : 1)))
      const constraints = await sql`SELECT conname FROM pg_constraint
        WHERE conrelid = ${`tollgate.${name}`}::regclass AND contype = 'c' ORDER BY conname`
      expect(constraints.map(({ conname }) => conname)).toEqual(checks.map((check) => check.name).sort())
    })
  },
)

test.each([["calls", schema.calls]] as const)(
  "the migrations make the view %s with the columns of the schema",
  async (name, view) => {
    const rows = await sql`SELECT column_name FROM information_schema.columns
    WHERE table_schema = 'tollgate' AND table_name = ${name} ORDER BY column_name`
    expect(rows.map(({ column_name }) => column_name)).toEqual(
      Object.keys(getViewSelectedFields(view)).sort(),
    )
  },
)

test("the words of the enums are those of the code", async () => {
  const rows = await sql`SELECT t.typname, array_agg(e.enumlabel::text ORDER BY e.enumsortorder) AS words
    FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid GROUP BY t.typname ORDER BY t.typname`
  const enums = [schema.basis, schema.endOutcome, schema.ending, schema.failure]
  const expected = enums.map(({ enumName, enumValues }) => ({ typname: enumName, words: enumValues }))
  expect([...rows]).toEqual(expected.sort((one, other) => (one.typname < other.typname ? -1 : 1)))
})

test("nothing that changes often is indexed, and hot rows have room to change in their page", async () => {
  const rows =
    await sql`SELECT c.relname, array_agg(DISTINCT a.attname::text ORDER BY a.attname::text) AS columns
    FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
    WHERE n.nspname = 'tollgate' AND c.relname IN ('accounts', 'budget_windows', 'checkpoints', 'keys') GROUP BY c.relname ORDER BY c.relname`
  expect([...rows]).toEqual([
    { relname: "accounts", columns: ["external_id", "id", "next_change_at"] },
    { relname: "budget_windows", columns: ["account_id", "id", "member"] },
    { relname: "checkpoints", columns: ["id"] },
    { relname: "keys", columns: ["account_id", "hash", "id", "previous_hash"] },
  ])
  const options = await sql`SELECT relname, reloptions FROM pg_class
    WHERE relnamespace = 'tollgate'::regnamespace AND reloptions IS NOT NULL AND relkind = 'r' ORDER BY relname`
  expect([...options]).toEqual([
    { relname: "accounts", reloptions: ["fillfactor=20"] },
    { relname: "budget_windows", reloptions: ["fillfactor=50"] },
    { relname: "checkpoints", reloptions: ["fillfactor=50"] },
    { relname: "keys", reloptions: ["fillfactor=50"] },
  ])
})

test("no foreign key locks a hot row", async () => {
  const rows =
    await sql`SELECT conname FROM pg_constraint WHERE contype = 'f' AND connamespace = 'tollgate'::regnamespace`
  expect([...rows]).toEqual([])
})

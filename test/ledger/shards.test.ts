import { afterAll, describe, expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { audit } from "../../src/ledger/archive/audit.ts"
import { addMonths } from "../../src/ledger/archive/months.ts"
import { checkSeal, sealMonth } from "../../src/ledger/archive/seals.ts"
import { type Address, connect, inSchema } from "../../src/ledger/database/address.ts"
import { type Database, openDatabase } from "../../src/ledger/database/database.ts"
import { MIGRATIONS, readVersion } from "../../src/ledger/database/migration.ts"
import { openLedger } from "../../src/ledger/ledger.ts"
import { registerTerms } from "../../src/ledger/money/terms.ts"
import { sumHours } from "../../src/ledger/reports/sum-hours.ts"
import { openShards } from "../../src/ledger/shards.ts"
import { emptyDatabase } from "../support/database.ts"
import { thrown } from "../support/thrown.ts"
import { holdOf, LONG_LEASE, nth, settled, silent } from "./test-database.ts"

/** D74: the ledger in a schema of another name, beside the usual one in one database. */

const OTHER = "books_7"

const databases: Database[] = []

const fresh = await emptyDatabase()
const other = { ...fresh.address, schema: OTHER }
// Both at once: they take turns.
databases.push(...(await Promise.all([openDatabase(fresh.address), openDatabase(other)])))
const sql = connect(fresh.address, { max: 2, onnotice: () => {} })
afterAll(async () => {
  await sql.end()
  for (const database of databases) await database.close()
  await fresh.drop()
})

const ledgerOf = (databases: Awaited<ReturnType<typeof openShards>>) =>
  openLedger({
    databases,
    data_dir: "/nonexistent",
    lease: LONG_LEASE,
    log: silent,
    checkpoints: () => [],
  })

describe("D74 the text of another schema", () => {
  test("names it wherever the usual one was named, in statements and in migrations", () => {
    const script = join(import.meta.dir, "statement-texts.ts")
    const texts: string[] = JSON.parse(Bun.spawnSync([process.execPath, script]).stdout.toString())
    const migrations = readdirSync(MIGRATIONS)
      .filter((name) => name.endsWith(".sql"))
      .map((name) => readFileSync(join(MIGRATIONS, name), "utf8"))
    expect(texts.filter((text) => text.includes("tollgate")).length).toBeGreaterThan(20)
    for (const text of [...texts, ...migrations]) {
      expect(withoutComments(inSchema(text, other))).not.toContain("tollgate")
      expect(inSchema(text, fresh.address)).toBe(text)
      expect(inSchema(text, { ...fresh.address, schema: "tollgate" })).toBe(text)
    }
  })
})

function withoutComments(text: string): string {
  return text.replace(/--.*$/gm, "")
}

/** Everything that a schema consists of, as the server defines it, without the schema's own name. */
async function definitions(schema: string): Promise<string[]> {
  const rows = await sql`
    SELECT 'table ' || c.relname || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull
      || coalesce(' ' || pg_get_expr(d.adbin, d.adrelid), '') AS made
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = ${schema}::regnamespace AND c.relkind IN ('r', 'p', 'v') AND c.relname <> '__drizzle_migrations'
    UNION ALL SELECT 'index ' || pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = ${schema}::regnamespace AND c.relname <> '__drizzle_migrations'
    UNION ALL SELECT 'trigger ' || pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = ${schema}::regnamespace
    UNION ALL SELECT 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = ${schema}::regnamespace AND conrelid <> coalesce(to_regclass(${`${schema}.__drizzle_migrations`}), 0)
    UNION ALL SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = ${schema}::regnamespace
    UNION ALL SELECT 'view ' || pg_get_viewdef(oid) FROM pg_class WHERE relnamespace = ${schema}::regnamespace AND relkind = 'v'
    UNION ALL SELECT 'type ' || t.typname || ' ' || e.enumlabel FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid
    WHERE t.typnamespace = ${schema}::regnamespace`
  return rows
    .map(({ made }) => String(made).replaceAll(`"${schema}".`, "").replaceAll(`${schema}.`, ""))
    .sort()
}

describe("D74 two schemas of one database", () => {
  test("have the same tables, triggers, functions and types, each its own", async () => {
    const [usual, others] = [await definitions("tollgate"), await definitions(OTHER)]
    expect(usual.length).toBeGreaterThan(200)
    expect(others).toEqual(usual)
    expect(others.join("\n")).not.toContain("tollgate")
    expect(usual.join("\n")).not.toContain(OTHER)
  })

  test("note their migrations apart", async () => {
    expect(await readVersion(other)).toBe("same")
    expect(await readVersion({ ...fresh.address, schema: "third" })).toBe("none")
    const latest = sql`(SELECT max(id) FROM ${sql(OTHER)}.__drizzle_migrations)`
    await sql`DELETE FROM ${sql(OTHER)}.__drizzle_migrations WHERE id = ${latest}`
    expect([await readVersion(other), await readVersion(fresh.address)]).toEqual(["older", "same"])
    await sql`INSERT INTO ${sql(OTHER)}.__drizzle_migrations (hash, created_at)
      SELECT hash, created_at FROM drizzle.__drizzle_migrations ORDER BY created_at DESC LIMIT 1`
    expect(await readVersion(other)).toBe("same")
  })

  test("keep money, months, sums and seals apart, and their triggers name their own tables", async () => {
    const opened = await openShards([
      { name: "a", open: true, address: fresh.address },
      { name: "b", open: true, address: other },
    ])
    const [here, there] = [opened[0], nth(opened, 1)]
    const shards = await ledgerOf(opened)
    const price = { input_pico: 1_000n, cached_input_pico: 1_000n, output_pico: 1_000n, per_call_nano: 0n }
    const terms = { family: "chat", model: "m", upstream: "u", price }
    // So that the same terms have another number in the second one.
    await registerTerms(there.database.operators, [{ ...terms, model: "first" }])
    const numbers = await shards.terms([terms])
    expect(numbers).toEqual([[1], [2]])
    const account = { account_id: crypto.randomUUID(), key_id: crypto.randomUUID() }
    await sql.unsafe(`INSERT INTO ${OTHER}.accounts (id, name, balance_nano) VALUES ('${account.account_id}', 'a', 100);
      INSERT INTO ${OTHER}.credits (id, account_id, amount_nano) VALUES (gen_random_uuid(), '${account.account_id}', 100);
      INSERT INTO ${OTHER}.keys (id, account_id, hash, prefix) VALUES ('${account.key_id}', '${account.account_id}', 'h', 'tg')`)

    expect(await shards.standing("h")).toMatchObject({ ...account, shard: 1 })
    expect(shards.owner("h")).toEqual({ ...account, shard: 1 })
    const hold = { ...holdOf(account, 70n), terms_id: 2 }
    expect(await shards.shard(1).hold(hold)).toEqual({ outcome: "held" })
    await shards.shard(1).end(settled(hold.id, 5n, { terms_id: null }))
    expect(await shards.standing("h")).toMatchObject({ shard: 1, available_nano: 95n })
    expect(shards.depths()).toEqual({ hold: 0, end: 0, standing: 0, spool: 0 })
    await shards.stop()

    for (const { database } of opened) await addMonths(database.upkeep, 4)
    const counts = await sql`SELECT (SELECT count(*) FROM tollgate.months)::int AS usual,
      (SELECT count(*) FROM ${sql(OTHER)}.months)::int AS others`
    expect(counts[0]).toEqual({ usual: 5, others: 5 })
    await sumHours(there.database.upkeep, () => false, -7_200_000)
    expect(await sql`SELECT count(*)::int AS rows FROM tollgate.hours`).toMatchObject([{ rows: 0 }])
    expect((await sql`SELECT FROM ${sql(OTHER)}.hours`).length).toBeGreaterThan(0)
    expect((await audit(there.database.operators)).violations).toEqual([])
    expect(await audit(here.database.operators)).toMatchObject({ accounts: 0, violations: [] })

    const month = await sealMonth(there.database.upkeep, () => false, -40 * 86_400_000)
    expect(month?.sealed).toBe("sealed")
    const checked = await checkSeal(there.database.operators, month?.month ?? "", null)
    expect(checked).toMatchObject({ entries: 2n, matches: true })
    expect(await sql`SELECT FROM tollgate.seals`).toHaveLength(0)
    expect(String(await thrown(sql`DELETE FROM ${sql(OTHER)}.holds`))).toContain(
      `entries of ${OTHER}.holds are added`,
    )
    expect(
      String(
        await thrown(sql`INSERT INTO ${sql(OTHER)}.holds (id, account_id, key_id, gateway_id, amount_nano, terms_id, stream)
      VALUES (${hold.id}, ${hold.id}, ${hold.id}, ${hold.id}, 1, 1, false)`),
      ),
    ).toContain(`the month of ${OTHER}.holds_`)
    for (const { database } of opened) await database.close()
  })
})

describe("D74 a start", () => {
  const shard = (name: string, address: Address) => ({ name, open: true, address })

  test("needs every shard, and names the one that cannot be used", async () => {
    const away = { url: "postgres://tollgate:s3cret@127.0.0.1:1/nothing" }
    const failed = openShards([shard("here", fresh.address), shard("away", away)])
    expect(String(await thrown(failed))).toContain(
      "shard away: cannot use the database: connect ECONNREFUSED 127.0.0.1:1",
    )
  })

  test("refuses one place under two names", async () => {
    const opened = await openShards([shard("one", other), shard("two", { ...other })])
    const started = ledgerOf(opened)
    expect(String(await thrown(started))).toContain(
      "shards one and two are the same schema of the same database",
    )
    expect(await sql`SELECT FROM ${sql(OTHER)}.gateways WHERE dead_at IS NULL`).toHaveLength(0)
    for (const { database } of opened) await database.close()
  })

  test("with one shard is a ledger without shards to tell apart", async () => {
    const databases = await openShards([shard("main", other)])
    const ledger = await ledgerOf(databases)
    expect(ledger.writableShards()).toEqual([])
    const made = await ledger.operators.createAccount({ name: "alone" })
    expect(made.outcome === "created" && "shard" in made.account).toBe(false)
    expect(await ledger.operators.move(crypto.randomUUID(), "other")).toEqual({ outcome: "no_account" })
    expect(await ledger.elsewhere("hash", { shard: 0, account_id: "", key_id: "" })).toBeNull()
    await ledger.stop()
    await databases[0].database.close()
  })
})

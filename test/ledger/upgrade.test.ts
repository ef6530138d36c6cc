import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { Sql } from "postgres"
import { nextId } from "../../src/id.ts"
import { credit } from "../../src/ledger/accounts/credits.ts"
import { openGrants } from "../../src/ledger/accounts/grants.ts"
import { getKey } from "../../src/ledger/accounts/keys.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import { addMonths } from "../../src/ledger/archive/months.ts"
import { checkSeal, sealMonth } from "../../src/ledger/archive/seals.ts"
import { connect } from "../../src/ledger/database/address.ts"
import { DatabaseConnection } from "../../src/ledger/database/connection.ts"
import { type Database, openDatabase } from "../../src/ledger/database/database.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { emptyDatabase, type FreshDatabase } from "../support/database.ts"
import { BEFORE_LABELS, createOldLedger } from "./old-ledger.ts"
import { holdOf, idAt, settled } from "./test-database.ts"

/** The ledger as of migration `0020`, with a sealed month, at the migrations since: credits, seals and keys stay what they were (D55, D71). */

const account = { account_id: nextId(), key_id: nextId() }
const gateway_id = nextId()
/** What 10 prompt and 5 completion tokens cost at the terms. */
const CHARGE_NANO = 30n
const HELD_NANO = 100n
const NIL = "00000000-0000-0000-0000-000000000000"

let fresh: FreshDatabase
let sql: Sql
let database: Database
let connection: DatabaseConnection
let month: string
/** A call that is open at the upgrade, in the month after the sealed one. */
let open_id: string

beforeAll(async () => {
  fresh = await emptyDatabase()
  sql = connect(fresh.address, { max: 1, onnotice: () => {}, connection: { TimeZone: "UTC" } })
  await createOldLedger(sql, BEFORE_LABELS)
  await fill()
  await seal()
  database = await openDatabase(fresh.address)
  await addMonths(database.upkeep)
  connection = new DatabaseConnection(fresh.address)
})
afterAll(async () => {
  await connection?.end()
  await database?.close()
  await sql.end()
  await fresh.drop()
})

/** An id of the hour that many days after the first month's start. */
const idOn = (days: number) => idAt(Date.parse(`${month}T01:00:00Z`) + days * 86_400_000)

async function fill(): Promise<void> {
  const { account_id, key_id } = account
  const [first] = await sql`SELECT month::text AS month FROM tollgate.months`
  month = String(first?.month)
  await sql.unsafe(`
    INSERT INTO tollgate.months (month, from_id, to_id) SELECT (month + interval '1 month')::date, to_id,
      tollgate.month_id((month + interval '2 months')::date) FROM tollgate.months;
    DO $$ DECLARE one text; later record; BEGIN
      SELECT * INTO later FROM tollgate.months ORDER BY month DESC LIMIT 1;
      FOREACH one IN ARRAY ARRAY['holds', 'ends', 'corrections'] LOOP
        EXECUTE format('CREATE TABLE tollgate.%I PARTITION OF tollgate.%I FOR VALUES FROM (%L) TO (%L)',
          one || '_' || to_char(later.month, 'YYYY_MM'), one, later.from_id, later.to_id);
      END LOOP; END $$;
    INSERT INTO tollgate.gateways (id, lease_until, floor_id) VALUES ('${gateway_id}', 'infinity', '${NIL}');
    INSERT INTO tollgate.terms (family, operation, model, upstream, input_pico, cached_input_pico, output_pico, per_call_nano)
      VALUES ('chat', 'chat', 'model', 'first', 1000, 1000, 4000, 0);
    INSERT INTO tollgate.accounts (id, name, balance_nano, held_nano) VALUES ('${account_id}', 'a', ${1_000n - 2n * CHARGE_NANO}, ${HELD_NANO});
    INSERT INTO tollgate.keys (id, account_id, hash, prefix) VALUES ('${key_id}', '${account_id}', 'h', 'tg');
    INSERT INTO tollgate.credits (id, account_id, amount_nano) VALUES ('${nextId()}', '${account_id}', 1010), ('${nextId()}', '${account_id}', -10)`)
  open_id = idOn(32)
  for (const id of [idOn(1), idOn(1), open_id])
    await sql`INSERT INTO tollgate.holds (id, account_id, key_id, gateway_id, terms_id, amount_nano, stream)
      VALUES (${id}, ${account_id}, ${key_id}, ${gateway_id}, 1, ${HELD_NANO.toString()}, false)`
  await sql`INSERT INTO tollgate.ends (id, account_id, key_id, terms_id, freed_nano, charge_nano, outcome, basis, ending,
      prompt_tokens, cached_tokens, completion_tokens)
    SELECT id, account_id, key_id, terms_id, amount_nano, ${CHARGE_NANO.toString()}, 'settled', 'usage', 'completed', 10, 0, 5
    FROM tollgate.holds WHERE id <> ${open_id}`
}

/** Seals the first month with the statements of that time, which hash whole rows. */
async function seal(): Promise<void> {
  const digest = (text: string, order: string) =>
    `encode(sha256(coalesce(string_agg(sha256(convert_to(${text}, 'UTF8')), ''::bytea ORDER BY ${order}), ''::bytea)), 'hex')`
  const textOf = (row: string) => `jsonb_strip_nulls(to_jsonb(${row}))::text`
  const suffix = month.slice(0, 7).replace("-", "_")
  const tables = ["holds", "ends", "corrections"].map((table) => `tollgate.${table}_${suffix}`)
  const entries = tables.map(
    (table, at) => `SELECT x.id, ${at + 1} AS kind, ${textOf("x")} AS entry FROM ${table} x`,
  )
  await sql.unsafe(`
    ${tables.map((table) => `CREATE TRIGGER month_is_sealed BEFORE INSERT ON ${table} FOR EACH STATEMENT EXECUTE FUNCTION tollgate.refuse_entry();`).join("\n")}
    INSERT INTO tollgate.seal_hours (month, from_id, entries, hash)
      SELECT '${month}', '${NIL}', count(*), ${digest("x.entry", "x.id, x.kind")} FROM (${entries.join(" UNION ALL ")}) x;
    INSERT INTO tollgate.seal_sums SELECT '${month}', account_id, key_id, terms_id, count(*), sum(charge_nano), sum(prompt_tokens),
      sum(cached_tokens), sum(completion_tokens) FROM ${tables[1]} GROUP BY account_id, key_id, terms_id;
    INSERT INTO tollgate.seals (month, entries, calls, charge_nano, hash)
      SELECT '${month}', 4, 2, ${2n * CHARGE_NANO}, (SELECT ${digest("x.line", "x.kind, x.line")} FROM (
        SELECT 1 AS kind, ${textOf("s")} COLLATE "C" AS line FROM tollgate.seal_hours s
        UNION ALL SELECT 2, ${textOf("s")} COLLATE "C" FROM tollgate.seal_sums s) x)`)
}

describe("D55 the ledger of migration 0020, upgraded", () => {
  test("verifies the seal of its month, and passes a full audit", async () => {
    expect(await checkSeal(database.operators, month, null)).toEqual({
      entries: 4n,
      matches: true,
      next: null,
    })
    expect((await audit(database.operators, { full: true })).violations).toEqual([])
  })

  test("has its credits, which became no grants, and its key without labels and group", async () => {
    const { account_id, key_id } = account
    expect(await getKey(database.operators, key_id)).toMatchObject({
      labels: null,
      required_tags: null,
      ignores_client_tags: false,
      group_path: null,
    })
    const credits = await sql`SELECT kind, priority, effective_at, expires_at FROM tollgate.credits`
    const plain = { kind: null, priority: 50, effective_at: null, expires_at: null }
    expect([...credits]).toEqual([plain, plain])
    expect(await sql`SELECT FROM tollgate.grants`).toHaveLength(0)
    const open = await openGrants(database.operators, account_id)
    expect(open.map(({ left_nano }) => left_nano)).toEqual([1_010n - 10n - 2n * CHARGE_NANO])
  })

  test("ends the call that was open, makes new ones, and draws its credits by age behind a grant", async () => {
    const { account_id } = account
    const end = settled(open_id, CHARGE_NANO, {
      terms_id: 1,
      usage: { prompt_tokens: 10, cached_tokens: 0, completion_tokens: 5 },
    })
    expect(await endBatch(connection, [{ end, hold: null }], 300)).toEqual(["applied"])
    const order = { id: nextId(), account_id, amount_nano: 20n, reason: null }
    const expires_at = new Date(Date.now() + 86_400_000)
    expect((await credit(database.operators, { ...order, expires_at })).outcome).toBe("credited")
    const hold = holdOf(account, 50n, { id: idOn(33) })
    expect(await holdBatch(connection, gateway_id, [hold], 300)).toEqual([{ outcome: "held" }])
    expect(await endBatch(connection, [{ end: { ...end, id: hold.id }, hold }], 300)).toEqual(["applied"])
    const open = await openGrants(database.operators, account_id)
    expect(open.map(({ left_nano }) => left_nano)).toEqual([1_000n - 3n * CHARGE_NANO - 10n])
    expect((await audit(database.operators, { full: true, settle_ms: 0 })).violations).toEqual([])
  })

  test("seals the next month, whose entries are from before and after the upgrade", async () => {
    const over_ms = Date.now() - Date.parse(`${month}T00:00:00Z`) - 80 * 86_400_000
    const made = await sealMonth(database.upkeep, () => false, over_ms)
    expect(made?.sealed).toBe("sealed")
    const first = await checkSeal(database.operators, made?.month ?? "", null)
    const second = await checkSeal(database.operators, made?.month ?? "", first?.next ?? null)
    expect([first, second]).toMatchObject([
      { entries: 2n, matches: true },
      { entries: 2n, matches: true, next: null },
    ])
    expect((await audit(database.operators, { full: true, settle_ms: 0 })).violations).toEqual([])
  })
})

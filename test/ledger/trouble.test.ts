import { afterAll, describe, expect, test } from "bun:test"
import { SQL } from "bun"
import { sql } from "drizzle-orm"
import type { DatabaseConnection } from "../../src/ledger/database/connection.ts"
import { errorCode, kindOf } from "../../src/ledger/database/database-errors.ts"
import { statement } from "../../src/ledger/database/statement.ts"
import type { DatabaseLedger } from "../../src/ledger/database-ledger.ts"
import type { StatementKind } from "../../src/ledger/events.ts"
import { endOne } from "../../src/ledger/money/end.ts"
import { endExact } from "../../src/ledger/money/end-exact.ts"
import { holdOneKey } from "../../src/ledger/money/hold.ts"
import { holdExact } from "../../src/ledger/money/hold-exact.ts"
import { takes } from "../support/fair-clock.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import {
  type Account,
  call,
  failureOf,
  holdOf,
  ledgerAt,
  listening,
  lockAccount,
  patience,
  patiently,
  released,
  settled,
  testDatabase,
  until,
} from "./test-database.ts"

/** What the ledger does when something is in the way: a lock, a row that cannot be written, the network, the server. */

const db = await testDatabase({ audited: true })
const proxy = await DatabaseProxy.start(db.address)
afterAll(() => proxy.stop())

/** A ledger behind the proxy, and what it tells of its statements. */
async function behindProxy() {
  const statements: { kind: StatementKind; size: number }[] = []
  const spooled = { count: 0 }
  const ledger = await ledgerAt(db, proxy.address, {
    events: {
      statement: (kind, size) => void statements.push({ kind, size }),
      spooled: () => void spooled.count++,
    },
  })
  return { ledger, statements, spooled }
}

async function warm(ledger: DatabaseLedger, account: Account): Promise<void> {
  const hold = holdOf(account, 1n)
  await ledger.hold(hold)
  await ledger.end(settled(hold.id, 0n))
}

describe("a batch that fails on a lock is retried account by account", () => {
  test("calls of a locked account wait aside, to be held and ended; its neighbours on the connection are served meanwhile", async () => {
    using _ = patience()
    const ledger = await db.ledger()
    const [locked, ...others] = await Promise.all([1, 2, 3, 4, 5].map(() => db.account(1_000n)))
    if (locked === undefined) throw new Error("no account")
    /** One call of each of the others, again and again for so long: how long it mostly took. */
    const medianRound = async (for_ms: number) => {
      const rounds_ms: number[] = []
      const began_at = performance.now()
      while (performance.now() - began_at < for_ms) {
        const started_at = performance.now()
        await Promise.all(
          others.map(async (account) => {
            const hold = holdOf(account, 1n)
            expect(await ledger.hold(hold)).toEqual({ outcome: "held" })
            await ledger.end(settled(hold.id, 1n))
          }),
        )
        rounds_ms.push(performance.now() - started_at)
      }
      return rounds_ms.sort((one, other) => one - other)[Math.floor(rounds_ms.length / 2)] ?? 0
    }
    const free_ms = await medianRound(200)
    const open = holdOf(locked, 5n)
    await ledger.hold(open)
    await using lock = await lockAccount(db.sql, locked.account_id)
    const ending = ledger.end(settled(open.id, 4n))
    const waiting = [holdOf(locked, 1n), holdOf(locked, 2n)].map((hold) => ledger.hold(hold))
    let done = 0
    for (const work of [ending, ...waiting]) void work.then(() => done++)

    const locked_ms = await medianRound(1_200)
    expect(done).toBe(0)
    // Once it is known that the account is locked, its neighbours no longer wait as long as a batch waits for a lock.
    expect(locked_ms).toBeLessThan(3 * free_ms + 150)

    await lock.unlock()
    await ending
    expect(await Promise.all(waiting)).toEqual([{ outcome: "held" }, { outcome: "held" }])
    expect(await call(db.sql, open.id)).toMatchObject({ state: "settled", notes: [] })
  })

  test("D27 a call whose account stays locked is refused within 2 s, and nothing is left of it", async () => {
    const ledger = await db.ledger()
    const account = await db.account(100n)
    await using lock = await lockAccount(db.sql, account.account_id)
    const hold = holdOf(account, 1n)
    expect(await takes(1_950, 2_400, failureOf(ledger.hold(hold)))).toBe("LedgerUnavailable")
    await lock.unlock()
    await ledger.stop()
    expect((await call(db.sql, hold.id))?.state ?? "released").toBe("released")
  })
})

describe("a row that cannot be written does not fail its neighbours", () => {
  patiently()

  test("a hold of an amount that there is not", async () => {
    const ledger = await db.ledger()
    const account = await db.account(1_000n)
    const holds = Array.from({ length: 40 }, (_, at) => holdOf(account, at === 17 ? -1n : 1n))
    const ends = await Promise.allSettled(holds.map((hold) => ledger.hold(hold)))
    expect(ends.filter((end) => end.status === "fulfilled")).toHaveLength(39)
    expect(ends[17]).toEqual({ status: "rejected", reason: new Error("the ledger refuses this hold: 23514") })
  })

  test("a hold whose refusal is lost, and refused again, is not open: the gateway's row is given back", async () => {
    const { ledger } = await behindProxy()
    const account = await db.account(100n)
    const first = holdOf(account, 1n)
    await ledger.hold(first)
    await ledger.end(settled(first.id, 0n))
    const lost = proxy.loseReply()
    const refused = ledger.hold(holdOf(account, -1n))
    await lost
    expect(await refused.catch((error: unknown) => error)).toEqual(
      new Error("the ledger refuses this hold: 23514"),
    )
    await ledger.stop()
    const { gateway_id } = (await call(db.sql, first.id)) ?? {}
    const [row] =
      await db.sql`SELECT swept_at IS NOT NULL AS swept FROM tollgate.gateways WHERE id = ${gateway_id}`
    expect(row?.swept).toBe(true)
  })

  test("an end that breaks a constraint stays spooled, and its caller is not kept waiting", async () => {
    const { fields, log } = listening()
    const ledger = await db.ledger({ log })
    const account = await db.account(1_000n)
    const holds = Array.from({ length: 20 }, () => holdOf(account, 1n))
    await Promise.all(holds.map((hold) => ledger.hold(hold)))
    await Promise.all(holds.map(({ id }, at) => ledger.end(settled(id, at === 7 ? -5n : 1n))))
    const states = await Promise.all(holds.map(async ({ id }) => (await call(db.sql, id))?.state))
    expect(states.filter((state) => state === "settled")).toHaveLength(19)
    expect(states[7]).toBe("open")
    expect(ledger.depths().spool).toBe(1)
    expect(fields).toEqual([{ id: holds[7]?.id, code: "23514" }])
  })
})

describe("a statement that loses a row on its way does nothing, is an error in the log, and is tried again", () => {
  patiently()

  let made = 0

  /** Makes so many updates of an account's row get lost; resolves to what ends that before. */
  async function losing({ account_id }: Account, times: number) {
    const name = `losing_${++made}`
    await db.sql.unsafe(`
      CREATE SEQUENCE tollgate.${name};
      CREATE FUNCTION tollgate.${name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('tollgate.${name}') > ${times} THEN RETURN NEW; END IF;
        RETURN NULL;
      END $$;
      CREATE TRIGGER ${name} BEFORE UPDATE ON tollgate.accounts FOR EACH ROW
        WHEN (NEW.id = '${account_id}') EXECUTE FUNCTION tollgate.${name}()`)
    return () => db.sql.unsafe(`DROP TRIGGER ${name} ON tollgate.accounts`)
  }

  test("to hold and to end", async () => {
    const { fields, log } = listening()
    const ledger = await db.ledger({ log })
    const account = await db.account(100n)
    const hold = holdOf(account, 60n)
    // The lean statement finds nothing to say when it loses the row, and the exact one is asked.
    await losing(account, 2)
    expect(await ledger.hold(hold)).toEqual({ outcome: "held" })
    await losing(account, 2)
    await ledger.end(settled(hold.id, 50n))
    expect(await call(db.sql, hold.id)).toMatchObject({ state: "settled", charge_nano: "50" })
    expect(fields).toEqual(["hold", "end"].map((statement) => ({ statement, items: 1 })))
  })

  test("and the other accounts of its connection are served meanwhile", async () => {
    const { fields, log } = listening()
    const ledger = await db.ledger({ log })
    const accounts = await Promise.all([1, 2, 3].map(() => db.account(100n)))
    const holds = accounts.map((account) => holdOf(account, 60n))
    await Promise.all(holds.map((hold) => ledger.hold(hold)))
    const [lost, ...others] = holds
    if (lost === undefined) throw new Error("no hold")
    const find = await losing(lost, Number.MAX_SAFE_INTEGER)
    const ending = ledger.end(settled(lost.id, 50n))
    await Promise.all(others.map(({ id }) => ledger.end(settled(id, 50n))))
    expect(await call(db.sql, lost.id)).toMatchObject({ state: "open" })
    expect(ledger.depths().spool).toBeGreaterThan(0)
    await find()
    await ending
    expect(await call(db.sql, lost.id)).toMatchObject({ state: "settled", charge_nano: "50" })
    expect(fields.length).toBeGreaterThan(1)
  })
})

describe("the network and the server", () => {
  test("D27 a reply that is lost after the commit: the hold and the settlement are done once", async () => {
    using _ = patience()
    const { ledger } = await behindProxy()
    const account = await db.account(100n)
    await warm(ledger, account)
    const hold = holdOf(account, 60n)
    const lost = proxy.loseReply(holdOneKey)
    const result = ledger.hold(hold)
    await lost
    expect(await result).toEqual({ outcome: "held" })
    expect(await call(db.sql, hold.id)).toMatchObject({ state: "open" })

    const lostAgain = proxy.loseReply(endOne)
    const ended = ledger.end(settled(hold.id, 50n))
    await lostAgain
    await ended
    expect(await call(db.sql, hold.id)).toMatchObject({ state: "settled", charge_nano: "50" })
  })

  test("D27 a batch of which the lean statement has done a part when the exact one gets lost: everything is done once", async () => {
    using _ = patience()
    const { ledger } = await behindProxy()
    const [rich, poor] = await Promise.all([100n, 10n].map((nano) => db.account(nano)))
    if (rich === undefined || poor === undefined) throw new Error("no account")
    await warm(ledger, rich)
    const holds = [holdOf(rich, 60n), holdOf(poor, 11n), holdOf(poor, 7n)]
    const asked = proxy.meet(holdExact, "asked")
    const results = Promise.all(holds.map((hold) => ledger.hold(hold)))
    ;(await asked).lose()
    expect(await results).toEqual([
      { outcome: "held" },
      { outcome: "insufficient_balance", available_nano: 3n },
      { outcome: "held" },
    ])
    const ends = [
      settled(holds[0]?.id ?? "", 50n),
      released(holds[2]?.id ?? "", { freed_key_hash: "a".repeat(64) }),
    ]
    const ending = proxy.meet(endExact, "asked")
    const ended = Promise.all(ends.map((end) => ledger.end(end)))
    ;(await ending).lose()
    await ended
    const states = await Promise.all(ends.map(async ({ id }) => (await call(db.sql, id))?.state))
    expect(states).toEqual(["settled", "released"])
  })

  test("D27 the server ends every connection under load: nothing is lost, nothing twice", async () => {
    using _ = patience()
    const ledger = await db.ledger()
    const account = await db.account(1_000_000n)
    const holds = Array.from({ length: 300 }, () => holdOf(account, 10n))
    let ended = 0
    const work = holds.map(async (hold) => {
      const result = await ledger.hold(hold)
      expect(result).toEqual({ outcome: "held" })
      await ledger.end(settled(hold.id, 7n))
      ended += 1
    })
    for (const share of [0, 100, 200]) {
      await until(() => ended > share)
      await db.sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE ${"\nWITH %"}`
    }
    await Promise.all(work)
    const [row] = await db.sql`SELECT count(*)::int AS calls, sum(charge_nano)::int AS charged
      FROM tollgate.calls WHERE account_id = ${account.account_id} AND state = 'settled'`
    expect(row).toEqual({ calls: 300, charged: 2_100 })
    expect(ledger.writable()).toBe(true)
  })

  test("D27 the database is down: refused within 2 s, and it is back within a second", async () => {
    const { ledger, spooled } = await behindProxy()
    const account = await db.account(100n)
    const open = holdOf(account, 60n)
    await ledger.hold(open)
    proxy.refuse()
    const refused = holdOf(account, 1n)
    const ending = ledger.end(settled(open.id, 50n))
    const failures = [failureOf(ledger.hold(refused)), failureOf(ledger.standing(account.key_id))]
    expect(await takes(0, 2_400, Promise.all(failures))).toEqual(failures.map(() => "LedgerUnavailable"))
    expect(ledger.writable()).toBe(false)
    expect(spooled.count).toBe(1)
    expect(ledger.depths().spool).toBe(1)

    proxy.admit()
    await takes(0, 1_500, ending)
    expect(await call(db.sql, open.id)).toMatchObject({ state: "settled", charge_nano: "50" })
    // The hold may have been sent before the connection broke: then it is released.
    await until(() => ledger.depths().spool === 0)
    expect(await ledger.hold(holdOf(account, 1n))).toEqual({ outcome: "held" })
    expect(ledger.writable()).toBe(true)
  })

  test("D27 a cable that is pulled: the hold that was sent is released, and its late arrival holds nothing", async () => {
    const { ledger } = await behindProxy()
    const account = await db.account(100n)
    await warm(ledger, account)
    proxy.stall()
    const hold = holdOf(account, 60n)
    expect(await takes(1_950, 4_000, failureOf(ledger.hold(hold)))).toBe("LedgerUnavailable")
    proxy.heal()
    await until(async () => (await call(db.sql, hold.id))?.state === "released")
    expect(await call(db.sql, hold.id)).toMatchObject({ charge_nano: "0", failure: "internal_error" })
    const late = await db.ledger()
    expect(await failureOf(late.hold(hold))).toBe("LedgerUnavailable")
    const again = holdOf(account, 60n)
    expect(await ledger.hold(again)).toEqual({ outcome: "held" })
    await ledger.end(settled(again.id, 1n))
  })

  test("D27 the same with several holds, whose releases are one batch: none can be held later", async () => {
    const { ledger } = await behindProxy()
    const account = await db.account(100n)
    await warm(ledger, account)
    proxy.stall()
    const sent = [1n, 2n, 3n].map((nano) => holdOf(account, nano))
    const refused = sent.map((hold) => failureOf(ledger.hold(hold)))
    expect(await Promise.all(refused)).toEqual(sent.map(() => "LedgerUnavailable"))
    proxy.heal()
    for (const { id } of sent) await until(async () => (await call(db.sql, id))?.state === "released")
  })

  test("D27 a hold that wins although its caller was refused is released by its id", async () => {
    const { ledger } = await behindProxy()
    const account = await db.account(100n)
    await warm(ledger, account)
    // The first statement commits and its reply is lost; the second one finds no way to the server until the caller has gone.
    const lost = proxy.loseReply(holdOneKey)
    const hold = holdOf(account, 60n)
    const refused = failureOf(ledger.hold(hold))
    await lost
    proxy.refuse()
    expect(await call(db.sql, hold.id)).toMatchObject({ state: "open" })
    expect(await refused).toBe("LedgerUnavailable")
    proxy.admit()
    await until(async () => (await call(db.sql, hold.id))?.state === "released")
    expect(await call(db.sql, hold.id)).toMatchObject({ charge_nano: "0", failure: "internal_error" })
  })
})

describe("what a failed statement means", () => {
  const server = (errno: string, severity = "ERROR") =>
    new SQL.PostgresError("", { code: "ERR_POSTGRES_SERVER_ERROR", errno, severity })
  const driver = (code: string) => Object.assign(new Error(), { code })
  test.each([
    ["a lock that was waited for too long", server("55P03"), "locked"],
    ["an assertion of the statement itself", server("22012"), "incomplete"],
    ["a number that is none", server("22P02"), "refused"],
    ["a constraint", server("23514"), "refused"],
    ["a deadlock", server("40P01"), "undone"],
    ["a statement that was cancelled", server("57014"), "undone"],
    ["a standby that cannot be written", server("25006"), "undone"],
    ["a server that is starting", server("57P03", "FATAL"), "undone"],
    ["a server that is full", server("53300", "FATAL"), "undone"],
    ["a wrong password", server("28P01", "FATAL"), "undone"],
    ["a database that is not there", server("3D000", "FATAL"), "undone"],
    ["a server that ends the connection", server("57P01", "FATAL"), "unknown"],
    ["a server that crashed", server("57P02", "FATAL"), "unknown"],
    ["a pooler that lost its server", server("08P01"), "unknown"],
    ["a connection that is refused", driver("ERR_POSTGRES_CONNECTION_REFUSED"), "undone"],
    ["a connection that is not made in time", driver("ERR_POSTGRES_CONNECTION_TIMEOUT"), "undone"],
    ["hosts of which none takes writes", driver("NO_PRIMARY"), "undone"],
    ["a connection that is lost", driver("ERR_POSTGRES_CONNECTION_CLOSED"), "unknown"],
    ["a connection that is reset", driver("ECONNRESET"), "unknown"],
    ["an answer that cannot be read", new Error(), "unknown"],
  ] as const)("%s", (_, error, trouble) => {
    expect(kindOf(error)).toBe(trouble)
  })
})

describe("a connection", () => {
  const slow = statement("sweep", sql`SELECT pg_sleep(1.5)`)
  const quick = statement("sweep", sql`SELECT 1 AS one`)
  const failed = (work: Promise<unknown>) => work.catch((thrown: unknown) => thrown)

  test("D27 gives up on a statement that does not return, and goes on with the next one", async () => {
    const connection: DatabaseConnection = db.connection(db.address)
    await connection.run(quick, [], 1_000)
    const both = async () => {
      expect(kindOf(await failed(connection.run(slow, [], 100)))).toBe("unknown")
      expect(await connection.run(quick, [], 1_000)).toEqual([{ one: 1 }])
    }
    await takes(0, 1_000, both())
  })

  test("that was reset while a statement was on its way serves the next one", async () => {
    const connection = db.connection(proxy.address)
    await connection.run(quick, [], 1_000)
    proxy.reset()
    expect(kindOf(await failed(connection.run(quick, [], 1_000)))).toBe("unknown")
    expect(await connection.run(quick, [], 1_000)).toEqual([{ one: 1 }])
  })

  test("that is closed before it was made has done nothing; one that is lost afterwards may have", async () => {
    const socket = { open: (made: Bun.Socket) => void made.end(), data() {} }
    const closing = Bun.listen({ hostname: "127.0.0.1", port: 0, socket })
    const connection = db.connection({ url: `postgres://tollgate@127.0.0.1:${closing.port}/ledger` })
    expect(kindOf(await failed(connection.run(quick, [], 1_000)))).toBe("undone")
    closing.stop()

    const made = db.connection(proxy.address)
    await made.run(quick, [], 1_000)
    const sent = failed(made.run(slow, [], 1_000))
    await until(async () => {
      const ended = await db.sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND state = 'active' AND query LIKE 'SELECT pg_sleep(1.5)%'`
      return ended.length > 0
    })
    expect(kindOf(await sent)).toBe("unknown")
  })

  test("runs one statement at a time", async () => {
    const connection = db.connection()
    const [slowly, quickly] = await Promise.all([
      connection.run(
        statement("sweep", sql`SELECT pg_sleep(0.05), clock_timestamp()::text AS at`),
        [],
        1_000,
      ),
      connection.run(statement("sweep", sql`SELECT now()::text AS at`), [], 1_000),
    ])
    expect(String(quickly[0]?.at) > String(slowly[0]?.at)).toBe(true)
  })

  test("goes on without names when a pooler has forgotten its prepared statements", async () => {
    const connection = db.connection()
    const echo = statement("sweep", sql`SELECT ${sql.raw("$1")}::int AS one`)
    const named = statement(
      "sweep",
      sql`SELECT count(*)::int AS named FROM pg_prepared_statements WHERE name <> ${sql.raw("$1")}`,
    )
    await connection.run(echo, ["1"], 1_000)
    expect(await connection.run(named, [""], 1_000)).toEqual([{ named: 2 }])
    await connection.run(statement("sweep", sql`DEALLOCATE ALL`), [], 1_000)
    const both = [connection.run(echo, ["1"], 1_000), connection.run(echo, ["2"], 1_000)]
    expect(await Promise.all(both)).toEqual([[{ one: 1 }], [{ one: 2 }]])
    expect(await connection.run(named, [""], 1_000)).toEqual([{ named: 0 }])
  })

  test.each([
    ["that were forgotten", "DEALLOCATE ALL"],
    ["whose type has changed", "ALTER TABLE answered ADD COLUMN more int"],
  ])("D27 gives pipelined statements their own answers behind one with a plan %s", async (_, change) => {
    const write = statement("sweep", sql`INSERT INTO answered VALUES (${sql.raw("$1")}::int) RETURNING n`)
    const read = statement("sweep", sql`SELECT * FROM answered WHERE n < ${sql.raw("$1")}::int`)
    const echo = statement("sweep", sql`SELECT ${sql.raw("$1")}::int AS echo`)
    for (let round = 0; round < 40; round++) {
      await db.sql`CREATE TABLE answered (n int)`
      const connection = db.connection()
      for (const each of [read, write, echo]) await connection.run(each, ["0"], 1_000)
      await connection.run(statement("sweep", sql.raw(change)), [], 1_000)
      const [, ...behind] = await Promise.allSettled([
        connection.run(read, ["0"], 1_000),
        connection.run(write, ["1"], 1_000),
        connection.run(echo, ["2"], 1_000),
      ])
      expect(behind.map((each) => each.status === "fulfilled" && each.value)).toEqual([
        [{ n: 1 }],
        [{ echo: 2 }],
      ])
      expect([...(await db.sql`SELECT n FROM answered`)]).toEqual([{ n: 0 }, { n: 1 }])
      await connection.end()
      await db.sql`DROP TABLE answered`
    }
  })

  test("finds rows by index on every session, also when the one before still had answers to give", async () => {
    const connection = db.connection()
    const [one, two] = [1, 2].map((n) =>
      statement(
        "sweep",
        sql`SELECT ${sql.raw(`${n}, $1`)}::int AS one, current_setting('enable_seqscan') AS scans`,
      ),
    )
    if (one === undefined || two === undefined) throw new Error("no statement")
    await connection.run(one, ["1"], 1_000)
    await connection.run(two, ["1"], 1_000)
    await connection.run(statement("sweep", sql`DEALLOCATE "P0"`), [], 1_000)
    await Promise.all([connection.run(one, ["1"], 1_000), connection.run(two, ["1"], 1_000)])
    const [row] = await connection.run(one, ["1"], 1_000)
    expect(row?.scans).toBe("off")
  })

  test("that was ended opens no session any more", async () => {
    const connection = db.connection()
    await connection.end()
    const error = await failed(connection.run(quick, [], 1_000))
    expect([kindOf(error), errorCode(error)]).toEqual(["undone", "SESSION_CLOSED"])
  })

  test("behind an old pooler: prepare=false in the URL is obeyed", async () => {
    const { url } = proxy.address as { url: string }
    const named = db.connection(proxy.address)
    const unnamed = db.connection({ url: `${url}?prepare=false` })
    const count = statement(
      "sweep",
      sql`SELECT count(*)::int AS prepared FROM pg_prepared_statements WHERE name <> $1`,
    )
    expect(await named.run(count, [""], 1_000)).toEqual([{ prepared: 1 }])
    expect(await unnamed.run(count, [""], 1_000)).toEqual([{ prepared: 0 }])
  })

  test.each([
    ["PGDATABASE", "postgres"],
    ["PGSSLMODE", "require"],
    ["POSTGRES_URL", "postgres://nobody@nowhere.invalid/none?pgbouncer=true"],
  ])("goes where the address says, whatever %s says", async (name, value) => {
    const given = process.env[name]
    process.env[name] = value
    try {
      const where = statement("sweep", sql`SELECT current_database()::text AS name`)
      const [{ name: here } = {}] = await db.sql`SELECT current_database()::text AS name`
      for (const address of [db.address, proxy.address])
        expect(await db.connection(address).run(where, [], 1_000)).toEqual([{ name: here }])
    } finally {
      if (given === undefined) delete process.env[name]
      else process.env[name] = given
    }
  })
})

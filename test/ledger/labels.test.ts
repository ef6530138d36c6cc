import { describe, expect, test } from "bun:test"
import { changeKey } from "../../src/ledger/accounts/keys.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import type { Runner } from "../../src/ledger/database/connection.ts"
import type { Hold, Labelled } from "../../src/ledger/entries.ts"
import { restoreBatch } from "../../src/ledger/money/restore.ts"
import { labelQueue } from "../../src/ledger/queue/labels.ts"
import { lineOf, parseLine } from "../../src/ledger/queue/spool.ts"
import { Owners } from "../../src/ledger/queue/standings.ts"
import { OTHER } from "../../src/ledger/schema/labels.ts"
import {
  type Account,
  call,
  failureOf,
  falsify,
  holdOf,
  keyOf,
  recording,
  released,
  testGateway,
} from "./test-database.ts"

/** D94: the end users and tags of calls, interned beside the journal. */

const LOCK_MS = 300

const { db, connection, gateway_id, ask, outcomes } = await testGateway()

const labelled = ({ account_id }: Account, changes: Partial<Labelled> = {}): Labelled => ({
  account_id,
  end_user: null,
  fixed: {},
  sent: {},
  ...changes,
})
const nobody = () => {}
const queue = () => labelQueue(connection, nobody)
/** A queue, and the statements that it asks. */
function recorded() {
  const { runner, asked } = recording(connection)
  return { labels: labelQueue(Object.assign(Object.create(connection), runner), nobody), asked }
}
const rowsOf = async (table: "labels" | "end_users", { account_id }: Account) =>
  (
    await db.sql`SELECT count(*)::int AS count FROM ${db.sql(`tollgate.${table}`)} WHERE account_id = ${account_id}`
  )[0]?.count

describe("D94: equal content has one id", () => {
  test("in every gateway, also when all meet it at once", async () => {
    const account = await db.account(0n)
    const queues = Array.from({ length: 4 }, () => labelQueue(db.connection(), nobody))
    const people = ["ann", "bob", "ann"].map((end_user) =>
      labelled(account, { end_user, sent: { team: "a" } }),
    )
    const found = await Promise.all(queues.flatMap((one) => people.map((person) => one.of(person))))
    const ids = new Set(found.map(({ id, end_user_id }) => `${id} ${end_user_id}`))
    expect(ids.size).toBe(2)
    expect(await rowsOf("labels", account)).toBe(2)
    expect(await rowsOf("end_users", account)).toBe(2)
  })

  test("the order of tags and their source make no difference, and a known combination needs no statement", async () => {
    const account = await db.account(0n)
    const { labels, asked } = recorded()
    const one = await labels.of(labelled(account, { sent: { a: "1", b: "2" } }))
    const statements = asked.length
    expect(labels.of(labelled(account, { sent: { b: "2", a: "1" } }))).toEqual(one)
    expect(asked.length).toBe(statements)
    expect((await labels.of(labelled(account, { sent: { b: "2" }, fixed: { a: "1" } }))).id).toBe(one.id)
  })

  test("an end user keeps its id with other tags, and another account's is another", async () => {
    const [one, other] = [await db.account(0n), await db.account(0n)]
    const ids = await Promise.all(
      [labelled(one), labelled(one, { sent: { team: "a" } }), labelled(other)].map(
        async (each) => (await queue().of({ ...each, end_user: "ann" })).end_user_id,
      ),
    )
    expect(ids[0]).toBe(ids[1] ?? "")
    expect(ids[2]).not.toBe(ids[0] ?? "")
  })
})

test("D94: nothing is added while the account moves, so that its end users are all copied", async () => {
  const account = await db.account(0n)
  await db.sql`UPDATE tollgate.accounts SET moving_to = 'b' WHERE id = ${account.account_id}`
  expect(await failureOf(Promise.resolve(queue().of(labelled(account, { end_user: "ann" }))))).toBe(
    "LedgerUnavailable",
  )
  expect(await rowsOf("end_users", account)).toBe(0)
})

describe("D94: beyond the new combinations of a day", () => {
  const BOUND = 10_000
  let id = 0
  const full = async () => {
    const account = await db.account(0n)
    await db.sql`INSERT INTO tollgate.labels (id, account_id, tags)
      SELECT ${id} - n, ${account.account_id}, jsonb_build_object('n', n::text) FROM generate_series(1, ${BOUND}::int) n`
    id -= BOUND
    return account
  }
  const newOf = (account: Account, at: number) =>
    labelled(account, { end_user: `new ${at}`, sent: { team: `b${at}` }, fixed: { env: "prod" } })

  test("calls are labelled as other, but keep the key's labels", async () => {
    const account = await full()
    const known = labelled(account, { sent: { n: "1" } })
    let replaced = 0
    const labels = labelQueue(connection, () => {
      replaced += 1
    })
    expect((await labels.of(known)).tags).toEqual({ n: "1" })
    expect(replaced).toBe(0)
    const [one, other] = await Promise.all([1, 2].map((at) => labels.of(newOf(account, at))))
    expect(one?.tags).toEqual({ team: OTHER, env: "prod" })
    expect(other?.id).toBe(one?.id ?? 0)
    const [user] = await db.sql`SELECT subject FROM tollgate.end_users WHERE id = ${one?.end_user_id ?? null}`
    expect(user?.subject).toBe(OTHER)
    expect(replaced).toBe(2)
    expect((await labels.of(newOf(account, 1))).id).toBe(one?.id ?? 0)
    expect(replaced).toBe(3)
  })

  test("an account is counted once, not for each call, so that others do not wait for it", async () => {
    const [account, other] = [await full(), await db.account(0n)]
    await db.sql.begin(async (transaction) => {
      const read = async () => {
        const [row] = await transaction`
          SELECT pg_stat_get_xact_tuples_returned('tollgate.labels_by_time'::regclass)::int AS entries`
        return Number(row?.entries)
      }
      const run: Runner["run"] = ({ text }, values) => transaction.unsafe(text, [...values])
      const labels = labelQueue(Object.assign(Object.create(connection), { run }), nobody)
      const news = Array.from({ length: 30 }, (_, at) => newOf(account, at))
      const found = await Promise.all(
        [...news, labelled(other, { end_user: "ann" })].map((each) => labels.of(each)),
      )
      expect(found.map(({ tags }): string | undefined => tags.team)).toEqual([
        ...news.map(() => OTHER),
        undefined,
      ])
      expect(await read()).toBeLessThan(BOUND + 100)
      expect((await labels.of(newOf(account, 99))).tags.team).toBe(OTHER)
      expect(await read()).toBeLessThan(BOUND + 100)
    })
  })

  test("nothing is kept of what the client has sent, and one look-up finds what stands for it", async () => {
    const account = await full()
    const { labels, asked } = recorded()
    for (const at of [1, 1, 2]) {
      asked.length = 0
      expect((await labels.of(newOf(account, at))).tags).toEqual({ team: OTHER, env: "prod" })
    }
    expect(asked).toHaveLength(1)
    await falsify(db.sql, (tx) => tx`DELETE FROM tollgate.labels WHERE account_id = ${account.account_id}`)
    await labels.writeAgain(connection)
    expect(await rowsOf("labels", account)).toBe(1)
  })
})

test("D94: a process remembers combinations up to a number of characters, and drops the oldest", async () => {
  const account = await db.account(0n)
  const { labels, asked } = recorded()
  const statements = async (at: number) => {
    asked.length = 0
    await labels.of(labelled(account, { end_user: `${at} ${"a".repeat(100_000)}` }))
    return asked.length
  }
  const fit = Math.floor((8 * 2 ** 20) / 100_100)
  for (let at = 0; at <= fit; at += 1) await statements(at)
  expect(await statements(1)).toBe(0)
  expect(await statements(fit)).toBe(0)
  expect(await statements(0)).toBeGreaterThan(0)
})

describe("D94: a hold has the id of its labels", () => {
  /** Several for one key and one alone, for which there are short forms; with another account; with a key, which the exact statement takes. */
  const batches = async (): Promise<readonly (readonly Hold[])[]> => {
    const [one, other] = [await db.account(100n), await db.account(100n)]
    const of = async (account: Account, end_user: string) => ({
      labels: await queue().of(labelled(account, { end_user })),
    })
    const idempotency = { key_hash: crypto.randomUUID(), body_hash: "b" }
    const session = { session_id: "7a3c-41.x:y_z", agent_id: "agent-1" }
    return [
      [holdOf(one, 1n, await of(one, "ann")), holdOf(one, 1n), holdOf(one, 1n, { session })],
      [holdOf(one, 1n, { session: { session_id: "s", agent_id: null } })],
      [holdOf(one, 1n, { ...(await of(one, "ann")), session }), holdOf(other, 1n, await of(other, "bob"))],
      [holdOf(one, 1n, { ...(await of(one, "cid")), idempotency, session })],
    ]
  }

  test("by every statement that holds, with the session (D65)", async () => {
    for (const batch of await batches()) {
      expect(await ask(...batch)).toEqual(batch.map(() => ({ outcome: "held" })))
      for (const { id, labels, session } of batch) {
        const row = await call(db.sql, id)
        expect(row).toMatchObject(session ?? { session_id: null, agent_id: null })
        expect(row?.labels_id).toBe(labels?.id ?? null)
        expect(row?.end_user_id).toBe(labels?.end_user_id ?? null)
        expect(row?.tags).toEqual(labels?.tags ?? null)
      }
    }
  })

  test("also when it is restored from a line of the spool", async () => {
    const account = await db.account(100n)
    const hold = holdOf(account, 1n, { labels: await queue().of(labelled(account, { sent: { team: "a" } })) })
    const line = lineOf({ account_id: account.account_id, end: released(hold.id), hold })
    const entry = parseLine(line)
    const restored = entry !== null && "hold" in entry ? entry.hold : null
    expect(restored?.labels).toEqual(hold.labels)
    await restoreBatch(connection, gateway_id, [restored ?? hold], LOCK_MS)
    expect((await call(db.sql, hold.id))?.tags).toEqual({ team: "a" })
  })
})

describe("D94: a hold that obeys older labels or rules of its key is refused", () => {
  test("by the lean statements and by the exact one, and is held with the current version", async () => {
    const account = await db.account(100n)
    const other = await keyOf(db.sql, account, "name = 'other'")
    await changeKey(db.database.operators, account.key_id, { labels: { team: "search" } })
    for (const beside of [[], [holdOf(other, 1n)]]) {
      const stale = [holdOf(account, 1n), ...beside]
      expect(await outcomes(...stale)).toEqual(["labels_changed", ...beside.map(() => "held" as const)])
      const current = [holdOf(account, 1n, { labels_version: 1 }), ...beside.map(() => holdOf(other, 1n))]
      expect(await outcomes(...current)).toEqual(current.map(() => "held"))
    }
    await changeKey(db.database.operators, account.key_id, { name: "another" })
    expect(await ask(holdOf(account, 1n, { labels_version: 1 }))).toEqual([{ outcome: "held" }])
  })

  test("the standing of the key says the current ones", async () => {
    const account = await db.account(100n)
    const owners = new Owners()
    const ledger = await db.ledger({ owners })
    expect((await ledger.standing(account.key_id))?.tag_rules).toBeUndefined()
    await changeKey(db.database.operators, account.key_id, {
      labels: { team: "search" },
      required_tags: ["feature"],
      ignores_client_tags: true,
    })
    const rules = {
      version: 1,
      labels: { team: "search" },
      required_tags: ["feature"],
      ignores_client_tags: true,
    }
    expect((await ledger.standing(account.key_id))?.tag_rules).toEqual(rules)
    expect(owners.get(account.key_id)?.tag_rules).toEqual(rules)
  })
})

describe("D94: a database that has lost commits", () => {
  test("gets the labels again that a gateway knows, with their ids", async () => {
    const account = await db.account(100n)
    const labels = queue()
    const known = await labels.of(labelled(account, { end_user: "ann", sent: { team: "a" } }))
    const hold = holdOf(account, 1n, { labels: known })
    await ask(hold)
    await falsify(db.sql, async (tx) => {
      await tx`DELETE FROM tollgate.labels WHERE id = ${known.id}`
      await tx`DELETE FROM tollgate.end_users WHERE id = ${known.end_user_id}`
    })
    const found = async () =>
      (await audit(db.database.operators)).violations.filter(
        ({ kind, id }) => kind === "labels" && id === hold.id,
      )
    expect(await found()).toHaveLength(1)
    await labels.writeAgain(connection)
    expect(await found()).toEqual([])
    expect(await call(db.sql, hold.id)).toMatchObject({ tags: { team: "a" }, end_user: "ann" })
  })
})

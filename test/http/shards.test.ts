import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { makeKey } from "../../src/admission/key.ts"
import { type Address, connect } from "../../src/ledger/database/address.ts"
import type { ShardAddress } from "../../src/ledger/shards.ts"
import { type FreshDatabase, freshDatabase } from "../support/database.ts"
import { chat, startGateway, type TestGateway, until, untilIs } from "../support/gateway.ts"
import { chatCompletion, json, type Provider, startProvider, usage } from "../support/provider.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import { thrown } from "../support/thrown.ts"

/** D74: one gateway on two shards, and one on each of them alone, whose operator sees that shard. */

/** Where the second shard is, beside the first. */
const LAYOUTS = [
  ["two databases", false],
  ["two schemas of one database", true],
] as const

const ANSWER = json(200, chatCompletion("hello there", { usage: usage(10, 5) }))
/** 10 prompt tokens and 5 of output at the prices of the tests. */
const CHARGE = "0.00003"

describe.each(LAYOUTS)("D74 %s", (_, is_one_database) => {
  let provider: Provider
  const databases: FreshDatabase[] = []
  const proxies: DatabaseProxy[] = []
  let first: TestGateway
  let second: TestGateway
  let both: TestGateway

  beforeAll(async () => {
    provider = await startProvider()
    provider.reply(ANSWER)
    const one = await freshDatabase()
    const other = is_one_database ? one : await freshDatabase()
    databases.push(...new Set([one, other]))
    const addresses = [
      one.address,
      { ...other.address, ...(is_one_database && { schema: "tollgate_b" }) },
    ] as const
    const shard = (name: string, address: Address): ShardAddress => ({ name, open: true, address })
    first = await startGateway(provider, {}, null, [shard("a", addresses[0])])
    second = await startGateway(provider, {}, null, [shard("b", addresses[1])])
    for (const { address } of [one, other]) proxies.push(await DatabaseProxy.start(address))
    const [to_first, to_second] = proxies
    if (to_first === undefined || to_second === undefined) throw new Error("there are two proxies")
    // A renewal tells whether a shard is there.
    const soon = { idempotency: { keep_answers: "1h" }, lease: { renew: "500ms", expire: "20s" } }
    both = await startGateway(provider, soon, null, [
      shard("a", to_first.address),
      shard("b", { ...to_second.address, ...(is_one_database && { schema: "tollgate_b" }) }),
    ])
  })

  afterAll(async () => {
    await both.stop()
    for (const gateway of [first, second]) {
      expect(await gateway.audit()).toMatchObject({ open_holds: 0, violations: [] })
      await gateway.stop()
    }
    for (const proxy of proxies) await proxy.stop()
    for (const database of databases) await database.drop()
    await provider.stop()
  })

  /** Runs `work` while the gateway of both cannot reach the second shard. */
  async function withoutSecond(work: () => Promise<void>): Promise<void> {
    const [, proxy] = proxies
    proxy?.refuse()
    await work()
    proxy?.admit()
  }

  async function answerOf(response: Response): Promise<{ status: number; code?: string }> {
    const body: { error?: { code: string } } = JSON.parse(await response.text())
    return { status: response.status, ...(body.error !== undefined && { code: body.error.code }) }
  }

  const own = (path: string, key: string) =>
    fetch(`${both.url}${path}`, { headers: { authorization: `Bearer ${key}` } })

  test("an account is served from its shard, and its receipt is there", async () => {
    for (const [home, elsewhere] of [
      [first, second],
      [second, first],
    ] as const) {
      const account = await home.account()
      const response = await chat(both, account.key)
      expect(response.status).toBe(200)
      await response.text()
      const id = response.headers.get("x-request-id") ?? ""
      expect(await home.call(id)).toMatchObject({ charge: CHARGE, account_id: account.id })
      expect(String(await thrown(elsewhere.call(id)))).toContain("404")
      const receipt = await own(`/v1/calls/${id}`, account.key)
      expect(await receipt.json()).toMatchObject({ id, charge: CHARGE })
      const read: { id: string; balance: string } = JSON.parse(
        await (await own("/v1/account", account.key)).text(),
      )
      expect(read).toMatchObject({ id: account.id, balance: "9.99997" })
      const spent: { total: { charge: string } } = JSON.parse(
        await (await own("/v1/usage", account.key)).text(),
      )
      expect(spent.total.charge).toBe(CHARGE)
    }
  })

  test("a key that no shard has is a 401; a 503 while one shard does not answer", async () => {
    const unknown = makeKey()
    const refused = { status: 401, code: "invalid_api_key" }
    expect(await answerOf(await chat(both, unknown))).toEqual(refused)
    expect(await answerOf(await own("/v1/account", unknown))).toEqual(refused)
    await withoutSecond(async () => {
      const unavailable = { status: 503, code: "ledger_unavailable" }
      expect(await answerOf(await chat(both, unknown))).toEqual(unavailable)
      expect(await answerOf(await own("/v1/account", unknown))).toEqual(unavailable)
    })
    expect(await untilIs(async () => answerOf(await chat(both, unknown)), { status: 401 })).toEqual(refused)
  })

  test("a shard that is away refuses its own accounts, and no others", async () => {
    const [here, there, unseen] = [await first.account(), await second.account(), await first.account()]
    for (const { key } of [here, there])
      expect(await answerOf(await chat(both, key))).toEqual({ status: 200 })
    await withoutSecond(async () => {
      expect(await answerOf(await chat(both, there.key))).toEqual({ status: 503, code: "ledger_unavailable" })
      for (const { key } of [here, unseen])
        expect(await answerOf(await chat(both, key))).toEqual({ status: 200 })
      expect((await fetch(`${both.url}/readyz`)).status).toBe(200)
    })
    const served = await untilIs(async () => answerOf(await chat(both, there.key)), { status: 200 })
    expect(served).toEqual({ status: 200 })
  })

  test("a client whose shard answers reads receipts while another one is away, but no usage", async () => {
    const { key } = await first.account()
    const call = await chat(both, key)
    await call.text()
    await withoutSecond(async () => {
      expect((await own(`/v1/calls/${call.headers.get("x-request-id")}`, key)).status).toBe(200)
      expect((await own("/v1/account", key)).status).toBe(200)
      const unavailable = { status: 503, code: "ledger_unavailable" }
      expect(await answerOf(await own("/v1/usage", key))).toEqual(unavailable)
      const printed = await until(
        () => both.service.printMetrics(),
        (text) => text.includes('tollgate_shard_writable{shard="b"} 0'),
      )
      expect(printed).toContain('tollgate_shard_writable{shard="a"} 1')
    })
    await untilIs(async () => (await own("/v1/usage", key)).status, 200)
  })

  test("a settlement for a shard that is away waits in the spool of that shard", async () => {
    const account = await second.account()
    const gate = Promise.withResolvers<void>()
    provider.replyOnce(async (exchange) => {
      await gate.promise
      await ANSWER(exchange)
    })
    const asked = provider.requests.length + 1
    const answering = chat(both, account.key)
    await provider.exchange(asked)
    const spool = join(both.data_dir, "shards", "b", "spool")
    await withoutSecond(async () => {
      gate.resolve()
      expect(await answerOf(await answering)).toEqual({ status: 200 })
      await until(
        () => readdir(spool).catch(() => []),
        (names) => names.length > 0,
      )
    })
    const { balance } = await untilIs(() => second.balance(account.id), { held: "0" })
    expect(balance).toBe("9.99997")
  })

  test("the same Idempotency-Key stands for a call in each shard, and brings back its own answer", async () => {
    const keyed = (key: string) =>
      chat(
        both,
        key,
        {},
        {
          headers: {
            authorization: `Bearer ${key}`,
            "content-type": "application/json",
            "idempotency-key": "the-same-for-both",
          },
        },
      )
    const ids: (string | null)[] = []
    for (const home of [first, second]) {
      const { id, key } = await home.account()
      const once = await keyed(key)
      expect(once.headers.get("idempotent-replayed")).toBeNull()
      const again = await keyed(key)
      expect(again.headers.get("idempotent-replayed")).toBe("true")
      expect(await again.text()).toBe(await once.text())
      ids.push(once.headers.get("x-request-id"))
      expect(again.headers.get("x-request-id")).toBe(ids.at(-1) ?? "")
      expect(await home.calls(`?account=${id}`)).toHaveLength(1)
    }
    expect(new Set(ids).size).toBe(2)
  })

  test("an account that has moved is found again by its next call, and by a reading", async () => {
    for (const ask of [
      async (key: string) => answerOf(await chat(both, key)),
      async (key: string) => answerOf(await own("/v1/account", key)),
    ]) {
      const { id, key, key_id } = await first.account("0")
      expect(await answerOf(await own("/v1/account", key))).toEqual({ status: 200 })
      const from = connect(first.address, { max: 1 })
      const to = connect(second.address, { max: 1 })
      const there = is_one_database ? "tollgate_b" : "tollgate"
      const [row] = await from`DELETE FROM tollgate.keys WHERE id = ${key_id} RETURNING hash, prefix`
      await to.unsafe(`INSERT INTO ${there}.accounts (id, name) VALUES ('${id}', 'moved')`)
      await to.unsafe(`INSERT INTO ${there}.keys (id, account_id, hash, prefix)
        VALUES ('${key_id}', '${id}', '${row?.hash}', '${row?.prefix}')`)
      await Promise.all([from.end(), to.end()])
      await second.admin("POST", `/accounts/${id}/credits`, { amount: "1" })
      expect(await ask(key)).toEqual({ status: 200 })
      expect(await answerOf(await chat(both, key))).toEqual({ status: 200 })
      expect(await second.calls(`?account=${id}`)).not.toBeEmpty()
    }
  })
})

import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { makeKey } from "../../src/admission/key.ts"
import type { Address } from "../../src/ledger/database/address.ts"
import type { ShardAddress } from "../../src/ledger/shards.ts"
import { freshDatabase } from "../support/database.ts"
import { chat, startGateway, until, untilIs } from "../support/gateway.ts"
import { chatCompletion, heldBack, json, startProvider, usage } from "../support/provider.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import { thrown } from "../support/thrown.ts"

/** D74: one gateway on two shards, and one on each of them alone, whose operator sees that shard. */

/** Where the second shard is, beside the first. */
const LAYOUTS = [
  { layout: "two databases", is_one_database: false },
  { layout: "two schemas of one database", is_one_database: true },
] as const

const ANSWER = json(200, chatCompletion("hello there", { usage: usage(10, 5) }))
/** 10 prompt tokens and 5 of output at the prices of the tests. */
const CHARGE = "0.00003"

/** The gateways of one layout. */
type Stand = Awaited<ReturnType<typeof openStand>>

async function openStand({ layout, is_one_database }: (typeof LAYOUTS)[number]) {
  const provider = await startProvider()
  provider.reply(ANSWER)
  const one = await freshDatabase()
  const other = is_one_database ? one : await freshDatabase()
  const schema = is_one_database ? "tollgate_b" : "tollgate"
  const shard = (name: string, address: Address): ShardAddress => ({ name, open: true, address })
  const first = await startGateway(provider, {}, null, [shard("a", one.address)])
  const second = await startGateway(provider, {}, null, [shard("b", { ...other.address, schema })])
  const to_first = await DatabaseProxy.start(one.address)
  const to_second = await DatabaseProxy.start(other.address)
  // A renewal tells whether a shard is there.
  const soon = { idempotency: { keep_answers: "1h" }, lease: { renew: "500ms", expire: "20s" } }
  const both = await startGateway(provider, soon, null, [
    shard("a", to_first.address),
    shard("b", { ...to_second.address, schema }),
  ])
  return {
    ...{ layout, provider, first, second, both },
    async close() {
      await both.stop()
      for (const gateway of [first, second]) {
        expect(await gateway.audit()).toMatchObject({ open_holds: 0, violations: [] })
        await gateway.stop()
      }
      for (const proxy of [to_first, to_second]) await proxy.stop()
      for (const database of new Set([one, other])) await database.drop()
      await provider.stop()
    },
    /** Runs `work` while the gateway of both cannot reach the second shard. */
    async withoutSecond(work: () => Promise<void>): Promise<void> {
      to_second.refuse()
      await work()
      to_second.admit()
    },
    own: (path: string, key: string) =>
      fetch(`${both.url}${path}`, { headers: { authorization: `Bearer ${key}` } }),
  }
}

async function answerOf(response: Response): Promise<{ status: number; code?: string }> {
  const body: { error?: { code: string } } = JSON.parse(await response.text())
  return { status: response.status, ...(body.error !== undefined && { code: body.error.code }) }
}

describe("D74 two databases, and two schemas of one database", () => {
  let stands: readonly Stand[]
  beforeAll(async () => {
    stands = await Promise.all(LAYOUTS.map(openStand))
  })
  afterAll(() => Promise.all(stands.map((stand) => stand.close())))

  /** A test of both layouts side by side, because most of it waits for a shard that is away. */
  function testBoth(title: string, work: (stand: Stand) => Promise<void>): void {
    test(title, async () => {
      const failed = (stand: Stand) => (cause: unknown) => {
        throw new Error(`failed with ${stand.layout}`, { cause })
      }
      await Promise.all(stands.map((stand) => work(stand).catch(failed(stand))))
    })
  }

  testBoth(
    "an account is served from its shard, and its receipt is there",
    async ({ first, second, both }) => {
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
        const read = (path: string) => both.own<object>(path, account.key)
        expect(await read(`/v1/calls/${id}`)).toMatchObject({ id, charge: CHARGE })
        expect(await read("/v1/account")).toMatchObject({ id: account.id, balance: "9.99997" })
        expect(await read("/v1/usage")).toMatchObject({ total: { charge: CHARGE } })
      }
    },
  )

  testBoth(
    "a key that no shard has is a 401; a 503 while one shard does not answer",
    async ({ both, own, withoutSecond }) => {
      const unknown = makeKey()
      const refused = { status: 401, code: "invalid_api_key" }
      expect(await answerOf(await chat(both, unknown))).toEqual(refused)
      expect(await answerOf(await own("/v1/account", unknown))).toEqual(refused)
      await withoutSecond(async () => {
        const unavailable = { status: 503, code: "ledger_unavailable" }
        const asked = await Promise.all([chat(both, unknown), own("/v1/account", unknown)])
        expect(await Promise.all(asked.map(answerOf))).toEqual([unavailable, unavailable])
      })
      expect(await untilIs(async () => answerOf(await chat(both, unknown)), { status: 401 })).toEqual(refused)
    },
  )

  testBoth(
    "a shard that is away refuses its own accounts, and no others",
    async ({ first, second, both, withoutSecond }) => {
      const [here, there, unseen] = [await first.account(), await second.account(), await first.account()]
      for (const { key } of [here, there])
        expect(await answerOf(await chat(both, key))).toEqual({ status: 200 })
      await withoutSecond(async () => {
        expect(await answerOf(await chat(both, there.key))).toEqual({
          status: 503,
          code: "ledger_unavailable",
        })
        for (const { key } of [here, unseen])
          expect(await answerOf(await chat(both, key))).toEqual({ status: 200 })
        expect((await fetch(`${both.url}/readyz`)).status).toBe(200)
      })
      const served = await untilIs(async () => answerOf(await chat(both, there.key)), { status: 200 })
      expect(served).toEqual({ status: 200 })
    },
  )

  testBoth(
    "a client whose shard answers reads receipts while another one is away, but no usage",
    async ({ first, both, own, withoutSecond }) => {
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
    },
  )

  testBoth(
    "a settlement for a shard that is away waits in the spool of that shard",
    async ({ second, both, provider, withoutSecond }) => {
      const account = await second.account()
      const gate = heldBack(ANSWER)
      provider.replyOnce(gate.held)
      const asked = provider.requests.length + 1
      const answering = chat(both, account.key)
      await provider.exchange(asked)
      const spool = join(both.data_dir, "shards", "b", "spool")
      await withoutSecond(async () => {
        gate.release()
        expect(await answerOf(await answering)).toEqual({ status: 200 })
        await until(
          () => readdir(spool).catch(() => []),
          (names) => names.length > 0,
        )
      })
      const { balance } = await untilIs(() => second.balance(account.id), { held: "0" })
      expect(balance).toBe("9.99997")
    },
  )

  testBoth(
    "the same Idempotency-Key stands for a call in each shard, and brings back its own answer",
    async ({ first, second, both }) => {
      const headers = { "idempotency-key": "the-same-for-both" }
      const keyed = (key: string) => chat(both, key, {}, { headers })
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
    },
  )
})

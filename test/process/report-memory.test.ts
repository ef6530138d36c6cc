import { afterAll, beforeAll, expect, test } from "bun:test"
import { drizzle } from "drizzle-orm/postgres-js"
import { connect } from "../../src/ledger/database/address.ts"
import { plantCall } from "../admin/admin-harness.ts"
import { type FreshDatabase, freshDatabase } from "../support/database.ts"
import { configFor, until } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { type Provider, startProvider } from "../support/provider.ts"
import { type RawClient, rawClient } from "../support/raw-client.ts"
import type { GatewayProcess } from "./gateway-process.ts"
import { databaseVariables, Workplace } from "./workplace.ts"

const MEMORY_MIB = 40
/** All that a gateway may use besides. */
const BESIDES_MIB = 64
/** Of a report: 10 MB, more than the kernel takes of an answer that is not read. */
const GROUPS = 20_000
const REPORTS = 8
const PATH = "/v1/usage?by=day,session,model,key&format=ndjson"

const place = new Workplace()
let provider: Provider
let fresh: FreshDatabase
let gateway: GatewayProcess

beforeAll(async () => {
  provider = await startProvider()
  fresh = await freshDatabase()
  place.configure(
    configFor(provider.url, { limits: { body: `${MEMORY_MIB / 4}MiB`, memory: `${MEMORY_MIB}MiB` } }),
  )
  gateway = await place.start(databaseVariables(fresh.address))
})
afterAll(() => place.clear(provider, fresh))

/** Calls of an account, each of a session of its own. */
async function plantSessions(account_id: string): Promise<void> {
  const client = connect(fresh.address, { max: 1 })
  const at = new Date(Date.now() - 60_000)
  const id = await plantCall(drizzle(client), { account_id, held_at: at, ended_at: at, state: "settled" })
  const later = client`overlay(id::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid`
  const some = client`generate_series(1, ${GROUPS}::int) n WHERE id = ${id}`
  await client`
    INSERT INTO tollgate.holds (id, account_id, key_id, gateway_id, amount_nano, held_at, terms_id, stream, session_id)
    SELECT ${later}, account_id, key_id, gateway_id, amount_nano, held_at, terms_id, stream, md5(n::text) FROM tollgate.holds, ${some}`
  await client`
    INSERT INTO tollgate.ends (id, account_id, key_id, charge_nano, freed_nano, ended_at, terms_id, outcome, basis)
    SELECT ${later}, account_id, key_id, charge_nano, freed_nano, ended_at, terms_id, outcome, basis FROM tollgate.ends, ${some}`
  await client.end()
}

/** A client that asks for a report, and reads its beginning alone. */
async function unread(key: string): Promise<{ readonly client: RawClient; readonly status: number }> {
  const client = await rawClient(gateway)
  client.send(`GET ${PATH} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${key}\r\n\r\n`)
  const head = await client.receives("HTTP/1.1 ")
  client.stopReading()
  return { client, status: Number(head.slice(9, 12)) }
}

async function statusOf(key: string): Promise<number> {
  const answer = await fetch(`${gateway.url}${PATH}`, { headers: { authorization: `Bearer ${key}` } })
  await answer.arrayBuffer()
  return answer.status
}

test("D113 unread reports of an account take at most half of the memory, and others get theirs", async () => {
  const { account } = operatorOf(gateway.url)
  const [greedy, modest] = [await account(), await account()]
  for (const { id } of [greedy, modest]) await plantSessions(id)
  expect([await statusOf(greedy.key), await statusOf(modest.key)]).toEqual([200, 200])
  const before_mib = gateway.peak_mib
  const asked = []
  for (let at = 0; at < REPORTS; at++) asked.push(await unread(greedy.key))
  expect(new Set(asked.map(({ status }) => status))).toEqual(new Set([200, 503]))
  expect(await statusOf(modest.key)).toBe(200)
  expect(gateway.peak_mib - before_mib).toBeLessThan(MEMORY_MIB / 2 + BESIDES_MIB)
  for (const [at, { client }] of asked.entries()) {
    if (at % 2 === 0) client.leave()
    else client.reset()
  }
  await until(
    () => statusOf(greedy.key),
    (status) => status === 200,
  )
})

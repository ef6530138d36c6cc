import { afterEach, describe, expect, test } from "bun:test"
import { readUnfit } from "../../src/ledger/database/fitness.ts"
import { printUsd } from "../../src/money.ts"
import type { GatewayProcess } from "../process/gateway-process.ts"
import { beginStream, finishStream } from "../process/stream.ts"
import { readLedger, Workplace } from "../process/workplace.ts"
import { takes } from "../support/fair-clock.ts"
import { chat, configFor, until, untilIs } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { HELLO, type Provider, startProvider } from "../support/provider.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import { Postgres } from "./postgres.ts"

/** D73: a primary and a streaming standby, of which a gateway knows both addresses; the primary is lost. */

const CHARGE_NANO = 30_000n
const CREDIT_NANO = 100_000_000_000n
/** From the promotion until calls are served. */
const SERVING_WITHIN_MS = 5_000
/** So that a sweep and a look for losses come soon, and nobody dies of the outage. */
const LEASE = { lease: { renew: "500ms", expire: "60s" } }

/** Everything of one test, which is ended after it. */
let closing = new AsyncDisposableStack()
afterEach(async () => {
  const over = closing
  closing = new AsyncDisposableStack()
  await over.disposeAsync()
})

interface Pair {
  readonly provider: Provider
  readonly primary: Postgres
  readonly standby: Postgres
  readonly way: { readonly primary: DatabaseProxy; readonly standby: DatabaseProxy }
  readonly place: Workplace
  readonly variables: { readonly DATABASE_URL: string }
  readonly gateway: GatewayProcess
  readonly operator: ReturnType<typeof operatorOf>
  readonly account: { readonly id: string; readonly key: string }
}

async function openPair(synchronous: boolean): Promise<Pair> {
  const provider = await startProvider()
  closing.defer(() => provider.stop())
  provider.reply(HELLO)
  const primary = await Postgres.make()
  closing.defer(() => primary.clear())
  const standby = await primary.standby()
  closing.defer(() => standby.clear())
  await primary.start()
  await standby.start()
  await untilIs(() => primary.tell("SELECT FROM pg_stat_replication WHERE state = 'streaming'"), {
    length: 1,
  })
  if (synchronous) await set(primary, "synchronous_standby_names", "*")
  const way = {
    primary: await DatabaseProxy.start(primary.address),
    standby: await DatabaseProxy.start(standby.address),
  }
  closing.defer(() => way.primary.stop())
  closing.defer(() => way.standby.stop())
  const place = new Workplace()
  closing.defer(() => place.clear())
  place.configure(configFor(provider.url, LEASE))
  const [host, user, database] = ["127.0.0.1", primary.address.user, primary.address.database]
  const hosts = `${host}:${way.standby.port},${host}:${way.primary.port}`
  const variables = {
    DATABASE_URL: `postgres://${user}@${hosts}/${database}?target_session_attrs=primary`,
  }
  const gateway = await place.start(variables)
  const operator = operatorOf(gateway.url)
  const account = await operator.account(printUsd(CREDIT_NANO))
  return { provider, primary, standby, way, place, variables, gateway, operator, account }
}

async function set(server: Postgres, name: string, value: string): Promise<void> {
  await server.tell(`ALTER SYSTEM SET ${name} = '${value}'`)
  await server.tell("SELECT pg_reload_conf()")
}

/** Promotes, and waits until calls are served again. */
async function promote({ standby, gateway, account }: Pair): Promise<void> {
  await standby.tell("SELECT pg_promote()")
  const served = untilIs(async () => (await chat(gateway, account.key)).status, 200)
  await takes(0, SERVING_WITHIN_MS, served)
}

/** Every call that the provider served is charged, once, and the ledger is exact. */
async function expectAllCharged({ provider, operator, account, gateway, standby }: Pair): Promise<void> {
  const served = provider.exchanges.length
  const expected = { held: "0", balance: printUsd(CREDIT_NANO - BigInt(served) * CHARGE_NANO) }
  await until(
    () => operator.balance(account.id).catch(() => null),
    (told) => told?.held === expected.held && told.balance === expected.balance,
  )
  expect((await operator.audit()).violations).toEqual([])
  gateway.signal("SIGTERM")
  expect(await gateway.exited).toBe(0)
  const { calls, ...told } = await readLedger(standby.address)
  expect(told).toEqual({ open_holds: 0, violations: [] })
  expect(calls.filter(({ state }) => state === "settled")).toHaveLength(Math.min(served, 1_000))
}

/** Clients that ask for one call after another until `stop`; the ids of those that were answered. */
function load({ gateway, account }: Pair, clients: number) {
  const served: string[] = []
  const wrong: string[] = []
  let running = true
  const all = Array.from({ length: clients }, async () => {
    while (running) {
      const answer = await chat(gateway, account.key)
      const body = await answer.text()
      if (answer.status === 200) served.push(answer.headers.get("x-request-id") ?? "")
      else await Bun.sleep(20)
      if (answer.status !== 200 && answer.status !== 503) wrong.push(body)
    }
  })
  return {
    served,
    async stop() {
      running = false
      await Promise.all(all)
      expect(wrong).toEqual([])
    },
  }
}

describe("D73 a synchronous standby", () => {
  test("the primary crashes under load: nothing is lost or charged twice, and calls are served within 5 s", async () => {
    const pair = await openPair(true)
    expect((await readUnfit(pair.standby.address))?.[0]).toBe("it is a standby, which takes no writes")
    const { served, stop } = load(pair, 8)
    await until(
      () => served.length,
      (count) => count > 100,
    )
    await pair.primary.crash()
    await promote(pair)
    await stop()
    await expectAllCharged(pair)
  })

  test("the primary freezes, and comes back beside the new one: it is not used again", async () => {
    const pair = await openPair(true)
    const { served, stop } = load(pair, 4)
    await until(
      () => served.length,
      (count) => count > 50,
    )
    pair.primary.freeze()
    await promote(pair)
    pair.primary.thaw()
    // Connections that are made from now on find two servers that take writes.
    pair.way.standby.cut()
    const before = served.length
    await until(
      () => served.length,
      (count) => count > before + 50,
    )
    await stop()
    await expectAllCharged(pair)
  })
})

describe("D73 an asynchronous standby that has not got the last commits", () => {
  /** What was committed from now on is lost with the primary. */
  async function fallBehind({ primary, standby }: Pair): Promise<void> {
    await set(standby, "primary_conninfo", "")
    await untilIs(() => primary.tell("SELECT FROM pg_stat_replication"), { length: 0 })
  }

  test("ends and holds that were lost are written again, and every call that was served is charged", async () => {
    const pair = await openPair(false)
    const { provider, gateway, account } = pair
    for (let done = 0; done < 5; done++) expect((await chat(gateway, account.key)).status).toBe(200)
    const ends_later = await beginStream(gateway, provider, account.key)
    const ends_after = await beginStream(gateway, provider, account.key)
    await fallBehind(pair)
    // The end is lost, the hold is not.
    await finishStream(ends_later.exchange)
    await ends_later.client.receives("data: [DONE]\n\n")
    // Both are lost.
    for (let done = 0; done < 20; done++) expect((await chat(gateway, account.key)).status).toBe(200)
    // The hold is lost, and the call ends after the failover.
    const held_later = await beginStream(gateway, provider, account.key)
    await untilIs(() => pair.operator.balance(account.id), {
      balance: printUsd(CREDIT_NANO - 26n * CHARGE_NANO),
    })
    await pair.primary.crash()
    await promote(pair)
    for (const { client, exchange } of [ends_after, held_later]) {
      await finishStream(exchange)
      await client.receives("data: [DONE]\n\n")
    }
    await expectAllCharged(pair)
    for (const { client } of [ends_later, ends_after, held_later]) client.leave()
  })
})

describe("D73 no host of DATABASE_URL takes writes", () => {
  test("a start says so, and why, for each of them", async () => {
    const { place, way, primary, variables } = await openPair(false)
    await place.killGateways()
    await primary.crash()
    const gateway = place.spawn(variables)
    expect(await gateway.exited).toBe(1)
    expect(gateway.complaint).toStartWith(
      "tollgate: cannot use the database: none of its hosts takes writes: ",
    )
    expect(gateway.complaint).toContain(`127.0.0.1:${way.standby.port} (a standby)`)
    expect(gateway.complaint).toContain(`127.0.0.1:${way.primary.port} (`)
  })

  test("a gateway that runs waits without using the processor", async () => {
    const { gateway, primary } = await openPair(false)
    await primary.crash()
    await gateway.prints("the database is unavailable")
    const before_ms = gateway.cpu_ms
    await Bun.sleep(2_000)
    expect(gateway.cpu_ms - before_ms).toBeLessThan(200)
  })
})

import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { type FreshDatabase, freshDatabase } from "../support/database.ts"
import { chat, configFor, until } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import {
  chatCompletion,
  type Exchange,
  json,
  type Provider,
  startProvider,
  usage,
} from "../support/provider.ts"
import type { GatewayProcess } from "./gateway-process.ts"
import { beginStream } from "./stream.ts"
import { databaseVariables, readLedger, Workplace } from "./workplace.ts"

describe("two gateways over one database", () => {
  let place: Workplace
  let provider: Provider
  let fresh: FreshDatabase
  let one: GatewayProcess
  let other: GatewayProcess

  /** Both at once, on a database without tables. */
  beforeEach(async () => {
    place = new Workplace()
    provider = await startProvider()
    fresh = await freshDatabase()
    place.configure(configFor(provider.url, { lease: { renew: "200ms", expire: "1s" } }))
    const start = (name: string) =>
      place.start({
        ...databaseVariables(fresh.address),
        TOLLGATE_DATA_DIR: join(place.folder, name),
      })
    ;[one, other] = await Promise.all([start("one"), start("other")])
  })
  afterEach(async () => {
    await place.clear()
    await provider.stop()
    await fresh.drop()
  })

  test("serve one account, which is never oversold: of 40 calls at once the 5 that it pays for reach the provider", async () => {
    const { id, key } = await operatorOf(one.url).account("0.020175")
    const all_asked = Promise.withResolvers<void>()
    provider.reply(async (exchange) => {
      await all_asked.promise
      await json(200, chatCompletion("hi", { usage: usage(10, 5) }))(exchange)
    })
    const answers = Array.from({ length: 40 }, (_, at) => chat(at % 2 === 0 ? one : other, key))
    let refused = 0
    for (const answer of answers) {
      void answer.then(({ status }) => {
        if (status === 402) refused += 1
      })
    }
    await until(
      () => refused,
      (count) => count === 35,
    )
    expect(provider.requests).toHaveLength(5)
    all_asked.resolve()
    const statuses = (await Promise.all(answers)).map(({ status }) => status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(5)
    expect(provider.requests).toHaveLength(5)
    expect(await operatorOf(other.url).balance(id)).toMatchObject({ balance: "0.020025", held: "0" })

    for (const gateway of [one, other]) gateway.signal("SIGTERM")
    expect(await Promise.all([one.exited, other.exited])).toEqual([0, 0])
    const { calls, ...ledger } = await readLedger(fresh.address)
    expect(ledger).toEqual({ open_holds: 0, violations: [] })
    expect(calls).toHaveLength(5)
  })

  test("D35 the one that lives closes what the one that was killed left open, and nothing of its own", async () => {
    const operator = operatorOf(other.url)
    const { key } = await operator.account("1")
    const { exchange: dead } = await beginStream(one, provider, key)
    const { exchange: living } = await beginStream(other, provider, key)
    one.signal("SIGKILL")
    await until(operator.audit, ({ open_holds }) => open_holds === 1)
    const callOf = ({ request }: Exchange) => operator.call(request.headers["x-request-id"] ?? "")
    expect(await callOf(dead)).toMatchObject({ state: "expired", ending: "gateway_lost" })
    expect(await callOf(living)).toMatchObject({ state: "open" })
    expect(living.closed_by).toBeNull()
    expect((await operator.audit()).violations).toEqual([])
  })
})

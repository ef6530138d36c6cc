import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { type FreshDatabase, freshDatabase } from "../support/database.ts"
import { chat, configFor, until, untilIs } from "../support/gateway.ts"
import { ADMIN_TOKEN, operatorOf } from "../support/operator.ts"
import {
  chatCompletion,
  type Exchange,
  heldBack,
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
    const [model] = JSON.parse(JSON.stringify(configFor(provider.url).models))
    const upstream = (name: string) => ({ family: "chat", base_url: `${provider.url}/${name}` })
    place.configure(
      configFor(provider.url, {
        lease: { renew: "200ms", expire: "1s" },
        upstreams: { first: upstream("first"), second: upstream("second") },
        models: [
          model,
          { ...model, name: "two-upstreams", upstreams: [{ use: "first" }, { use: "second" }] },
        ],
      }),
    )
    const start = (name: string) =>
      place.start({
        ...databaseVariables(fresh.address),
        TOLLGATE_DATA_DIR: join(place.folder, name),
      })
    ;[one, other] = await Promise.all([start("one"), start("other")])
  })
  afterEach(() => place.clear(provider, fresh))

  test("serve one account, which is never oversold: of 40 calls at once the 5 that it pays for reach the provider", async () => {
    const { id, key } = await operatorOf(one.url).account("0.020175")
    const all_asked = heldBack(json(200, chatCompletion("hi", { usage: usage(10, 5) })))
    provider.reply(all_asked.held)
    const answers = Array.from({ length: 40 }, (_, at) => chat(at % 2 === 0 ? one : other, key))
    let refused = 0
    for (const answer of answers) {
      void answer.then(({ status }) => {
        if (status === 402) refused += 1
      })
    }
    await untilIs(() => refused, 35)
    expect(provider.requests).toHaveLength(5)
    all_asked.release()
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
    await untilIs(operator.audit, { open_holds: 1 })
    const callOf = ({ request }: Exchange) => operator.call(request.headers["x-request-id"] ?? "")
    expect(await callOf(dead)).toMatchObject({ state: "expired", ending: "gateway_lost" })
    expect(await callOf(living)).toMatchObject({ state: "open" })
    expect(living.closed_by).toBeNull()
    expect((await operator.audit()).violations).toEqual([])
  })

  test("D93 an attempt that failed before its gateway was killed is in the journal, and on the operator's receipt", async () => {
    const operator = operatorOf(other.url)
    const { key } = await operator.account("1")
    const silenced = Promise.withResolvers<Exchange>()
    provider.reply(async (exchange) => {
      if (provider.requests.length === 1) return json(503, "{}", { "x-request-id": "req_1" })(exchange)
      silenced.resolve(exchange)
      await exchange.closed
    })
    const answer = chat(one, key, { model: "two-upstreams" }).catch(() => null)
    const { request } = await silenced.promise
    const call = () => operator.call(request.headers["x-request-id"] ?? "")
    await until(call, ({ attempts }) => Array.isArray(attempts) && attempts.length === 1)
    one.signal("SIGKILL")
    await answer
    const attempt = { upstream: "first", status: 503, failure: null, provider_request_id: "req_1" }
    expect(await until(call, ({ state }) => state !== "open")).toMatchObject({
      state: "expired",
      attempts: [attempt],
    })
    const { stdout, exitCode } = Bun.spawnSync({
      cmd: [process.execPath, "src/cli/main.ts", "attempts", "--json"],
      cwd: join(import.meta.dir, "../.."),
      env: { ...process.env, TOLLGATE_URL: other.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN },
    })
    expect([exitCode, JSON.parse(String(stdout)).data]).toMatchObject([
      0,
      [{ upstream: "first", attempts: 1 }],
    ])
    expect((await operator.audit()).violations).toEqual([])
  })
})

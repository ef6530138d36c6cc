import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { execFileSync } from "node:child_process"
import { once } from "node:events"
import { createServer } from "node:net"
import { join } from "node:path"
import { connect } from "../../src/ledger/database/address.ts"
import { within } from "../support/fair-clock.ts"
import { configFor, until, untilIs } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import {
  chatCompletion,
  type Exchange,
  json,
  type Provider,
  silent,
  startProvider,
} from "../support/provider.ts"
import { rawClient } from "../support/raw-client.ts"
import { chatRequest } from "../support/request.ts"
import type { GatewayProcess } from "./gateway-process.ts"
import { beginStream, text } from "./stream.ts"
import { Workplace } from "./workplace.ts"

/** One data directory for the whole file, with one Postgres: what a user of one machine has. */
const place = new Workplace()
afterEach(() => place.killGateways())
afterAll(() => place.clear())

/** What a gateway that ended in good order leaves: its data directory, and no Postgres. */
function expectTidy(): void {
  expect(place.postgres()).toEqual([])
  expect(place.files().filter((file) => file !== "tollgate.yaml")).toEqual(["data/demo-key", "data/postgres"])
}

describe("the demo", () => {
  const keyOf = ({ printed }: GatewayProcess) => /^ {2}key +(tg_live_\w+)$/m.exec(printed)?.[1]
  let key: string | undefined

  test("prints where it listens and a curl line that works when pasted, refuses a second, and ends tidily", async () => {
    const gateway = place.spawn()
    await gateway.prints("curl -sN")
    const lines = gateway.printed.split("\n")
    expect(lines.filter((line) => line.startsWith("tollgate "))).toEqual([
      `tollgate listening on ${gateway.url} (pid ${gateway.pid})`,
    ])
    const curl = lines.find((line) => line.startsWith("curl ")) ?? "exit 1"
    const answer = execFileSync("/bin/sh", ["-c", curl], { encoding: "utf8" })
    expect(answer).toContain("data: {")
    expect(answer).toEndWith("data: [DONE]\n\n")
    key = keyOf(gateway)

    const second = place.spawn()
    expect(await second.exited).toBe(1)
    expect(second.complaint).toBe(
      `tollgate: another gateway (pid ${gateway.pid}) already uses ${place.data_dir}: stop it, or use another data directory\n`,
    )
    expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200)

    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
    expect(gateway.complaint).toBe("")
    expectTidy()
  })

  test("D37 has the same key after a restart, and the same account; no proxy is between it and itself", async () => {
    const gateway = place.spawn({ HTTP_PROXY: "http://127.0.0.1:1" })
    await gateway.prints("curl -sN")
    expect(key).toBeString()
    expect(keyOf(gateway)).toBe(key)
    const accounts = await operatorOf(gateway.url).admin("GET", "/accounts")
    expect(accounts).toMatchObject({ data: [{ name: "Demo", held: "0" }], next: null })
    gateway.signal("SIGINT")
    expect(await gateway.exited).toBe(0)
  })

  test("ends tidily at a signal that comes while it starts", async () => {
    const gateway = place.spawn()
    await gateway.prints("embedded Postgres started")
    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
    expectTidy()
  })

  test("does not start on a port in use: one sentence, and Postgres is stopped again", async () => {
    const occupied = createServer().listen(0, "127.0.0.1")
    await once(occupied, "listening")
    const address = occupied.address()
    const port = address !== null && typeof address === "object" ? address.port : 0
    const gateway = place.spawn({ PORT: String(port) })
    expect(await gateway.exited).toBe(1)
    expect(gateway.complaint).toBe(
      `tollgate: port ${port} on 127.0.0.1 is already in use: stop the program that listens there, or change PORT\n`,
    )
    expect(gateway.printed).toContain("embedded Postgres started")
    expectTidy()
    occupied.close()
  })
})

describe("with a configuration", () => {
  const LEASE = { renew: "200ms", expire: "1s" }
  const EXPIRE_MS = 1_000
  let provider: Provider

  beforeAll(async () => {
    provider = await startProvider()
    place.configure(configFor(provider.url, { lease: LEASE }))
  })
  afterAll(() => provider.stop())

  test("D13 D35 after kill -9 the next start serves at once and closes what was left, charging the checkpoints", async () => {
    const killed = await place.start()
    const { id, key } = await operatorOf(killed.url).account("1")
    const streams: Exchange[] = []
    for (let begun = 0; begun < 4; begun++) {
      const { exchange } = await beginStream(killed, provider, key)
      await exchange.chunk(text(" word"))
      streams.push(exchange)
    }
    for (const stream of [true, false]) {
      provider.replyOnce(silent())
      const waiting = await rawClient(killed)
      waiting.send(chatRequest(key, { stream }))
    }
    await until(
      checkpointed,
      (charges) => charges.length === 4 && charges.every((charge) => charge === "8000"),
    )

    killed.signal("SIGKILL")
    expect(await killed.exited).toBe("SIGKILL")
    for (const { closed } of streams) await closed
    provider.replyOnce(json(200, chatCompletion("at once")))
    const serving = place.start().then(async (gateway) => {
      const client = await rawClient(gateway)
      client.send(chatRequest(key))
      await client.receives("at once")
      return gateway
    })
    expect(await within(15_000, serving)).toBe(true)
    const gateway = await serving
    const operator = operatorOf(gateway.url)
    expect(gateway.printed).toContain("embedded Postgres adopted")

    const closed = untilIs(operator.audit, { open_holds: 0 })
    expect(await within(15_000 + 2 * EXPIRE_MS, closed)).toBe(true)
    const [latest, ...left] = await operator.calls(`?account=${id}`)
    expect(latest).toMatchObject({ state: "settled", charge: "0.000057" })
    expect(left).toHaveLength(6)
    for (const call of left)
      expect(call).toMatchObject({ state: "expired", ending: "gateway_lost", failure: "gateway_lost" })
    expect(left.map(({ basis, charge }) => `${basis} ${charge}`).sort()).toEqual([
      ...Array.from({ length: 4 }, () => "estimate 0.000008"),
      "none 0",
      "none 0",
    ])
    expect(await operator.balance(id)).toMatchObject({ balance: "0.999911", held: "0" })
    expect((await operator.audit()).violations).toEqual([])

    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
    expectTidy()
  })
})

/** The charges that are noted for open calls, read behind the gateway's back. */
async function checkpointed(): Promise<string[]> {
  const socket_path = join(place.data_dir, "postgres/socket/.s.PGSQL.5432")
  const client = connect({ socket_path, user: "tollgate", database: "tollgate" }, { max: 1 })
  const rows = await client<{ charge: string }[]>`
    select charge_nano::text as charge from checkpoints`
  await client.end()
  return rows.map(({ charge }) => charge)
}

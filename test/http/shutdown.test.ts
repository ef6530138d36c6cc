import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { readLedger } from "../process/workplace.ts"
import { startGateway, type TestGateway, untilIs } from "../support/gateway.ts"
import {
  chatCompletion,
  type Exchange,
  json,
  type Provider,
  silent,
  startProvider,
  usage,
} from "../support/provider.ts"
import { type RawClient, rawClient } from "../support/raw-client.ts"
import { chatRequest } from "../support/request.ts"
import { thrown } from "../support/thrown.ts"

let provider: Provider
let gateway: TestGateway

beforeEach(async () => {
  provider = await startProvider()
})
afterEach(async () => {
  await gateway.stop()
  await provider.stop()
})

/** Starts a gateway that ends like this; the key of an account of it. */
async function open(shutdown: { readonly ready_delay?: string; readonly drain?: string }): Promise<string> {
  gateway = await startGateway(provider, { shutdown })
  return (await gateway.account()).key
}

/** A JSON call that the provider has been asked for and has not answered. */
async function begin(key: string): Promise<{ client: RawClient; exchange: Exchange }> {
  provider.replyOnce(silent())
  const client = await rawClient(gateway)
  client.send(chatRequest(key))
  return { client, exchange: await provider.exchange(provider.exchanges.length + 1) }
}

/** The client goes; a connection made after that shows the gateway's event loop to be past it. */
async function leave(client: RawClient): Promise<void> {
  client.leave()
  await client.closed
  await fetch(`${gateway.url}/livez`)
}

describe("D34", () => {
  test("a second signal refuses connections at once, also while calls would still be served", async () => {
    await open({ ready_delay: "60s" })
    gateway.service.shutdown.signal()
    expect((await fetch(`${gateway.url}/readyz`)).status).toBe(503)
    gateway.service.shutdown.signal()
    expect(await thrown(rawClient(gateway))).toBeInstanceOf(Error)
    expect(await gateway.exited).toBe(1)
  })

  test("a request whose body is complete only after the cut is turned away, and holds nothing", async () => {
    const key = await open({ drain: "200ms" })
    const { client } = await begin(key)
    const late = await rawClient(gateway)
    const request = chatRequest(key)
    late.send(request.slice(0, -10))
    await untilIs(() => gateway.service.server.pending, 2)
    gateway.service.shutdown.signal()
    await client.receives('"overloaded"')
    late.send(request.slice(-10))
    expect(await late.receives('"overloaded"')).toStartWith("HTTP/1.1 503")
    expect(await gateway.exited).toBe(0)
    const { calls, ...ledger } = await readLedger(gateway.address)
    expect(ledger).toEqual({ open_holds: 0, violations: [] })
    expect(calls).toMatchObject([{ state: "released", ending: "gateway_stopped" }])
  })

  test("D9 a JSON call whose client left is read on while the gateway drains", async () => {
    const key = await open({})
    const { client, exchange } = await begin(key)
    await leave(client)
    gateway.service.shutdown.signal()
    await json(200, chatCompletion("late", { usage: usage(10, 5) }))(exchange)
    expect(await gateway.exited).toBe(0)
    const { calls, ...ledger } = await readLedger(gateway.address)
    expect(ledger).toEqual({ open_holds: 0, violations: [] })
    expect(calls).toMatchObject([
      { state: "settled", basis: "usage", ending: "client_left", charge_nano: 30_000n },
    ])
  })

  test("D9 and it is cut like any other when the drain is over", async () => {
    const key = await open({ drain: "200ms" })
    const { client, exchange } = await begin(key)
    await leave(client)
    gateway.service.shutdown.signal()
    await exchange.closed
    expect(exchange.closed_by).toBe("gateway")
    expect(await gateway.exited).toBe(0)
    const { calls, ...ledger } = await readLedger(gateway.address)
    expect(ledger).toEqual({ open_holds: 0, violations: [] })
    expect(calls).toMatchObject([{ state: "released", ending: "client_left", failure: "client_left" }])
  })
})

import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { type FreshDatabase, freshDatabase } from "../support/database.ts"
import { takes } from "../support/fair-clock.ts"
import { type ConfigChanges, configFor, until, untilIs } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { chatCompletion, json, type Provider, silent, startProvider } from "../support/provider.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import { rawClient } from "../support/raw-client.ts"
import { chatRequest } from "../support/request.ts"
import type { GatewayProcess } from "./gateway-process.ts"
import { beginStream, finishStream, refuses } from "./stream.ts"
import { databaseVariables, readLedger, Workplace } from "./workplace.ts"

let place: Workplace
let provider: Provider
let fresh: FreshDatabase

beforeEach(async () => {
  place = new Workplace()
  provider = await startProvider()
  fresh = await freshDatabase()
})
afterEach(() => place.clear(provider, fresh))

/** Long enough for a few requests on a busy machine. */
const READY_DELAY_MS = 2_000
/** Two signals that are less than half a second apart are one that came twice. */
const APART_MS = 600

function start(changes: ConfigChanges, variables = databaseVariables(fresh.address)) {
  place.configure(configFor(provider.url, changes))
  return place.start(variables)
}

/** What the log said last. */
function lastLine(gateway: GatewayProcess): Record<string, unknown> {
  return JSON.parse(gateway.printed.trimEnd().split("\n").at(-1) ?? "")
}

describe("D34 the first signal drains", () => {
  test("not ready and `connection: close` at once, calls served for ready_delay, streams to their end, exit 0", async () => {
    const gateway = await start({ shutdown: { ready_delay: `${READY_DELAY_MS}ms` } })
    const { key } = await operatorOf(gateway.url).account()
    const idle = await rawClient(gateway)
    const { client, exchange } = await beginStream(gateway, provider, key)

    gateway.signal("SIGTERM")
    const signalled_ms = performance.now()
    const unready = await until(
      () => fetch(`${gateway.url}/readyz`),
      ({ status }) => status !== 200,
    )
    expect([unready.status, unready.headers.get("connection")]).toEqual([503, "close"])
    expect(await unready.json()).toMatchObject({ reason: "draining" })
    expect((await fetch(`${gateway.url}/livez`)).status).toBe(200)

    provider.replyOnce(json(200, chatCompletion("still served")))
    idle.send(chatRequest(key))
    expect(await idle.receives("still served")).toContain("onnection: close")

    await until(() => refuses(gateway), Boolean)
    expect(performance.now() - signalled_ms).toBeGreaterThan(READY_DELAY_MS - 10)
    expect(await finishStream(exchange)).toBe(true)
    expect(await client.receives("data: [DONE]\n\n")).toContain(" last")
    expect(await gateway.exited).toBe(0)
    expect(gateway.complaint).toBe("")
    expect(lastLine(gateway)).toMatchObject({ msg: "drained", calls_finished: 2, calls_cut: 0 })

    const { calls, ...ledger } = await readLedger(fresh.address)
    expect(ledger).toEqual({ open_holds: 0, violations: [] })
    expect(calls).toHaveLength(2)
    for (const call of calls)
      expect(call).toMatchObject({ state: "settled", basis: "usage", ending: "completed" })
    expect(place.files()).toEqual(["tollgate.yaml"])
  })

  test("a connection that is idle or never sends a whole request does not keep it", async () => {
    const gateway = await start({})
    const [idle, slow] = [await rawClient(gateway), await rawClient(gateway)]
    idle.send("GET /livez HTTP/1.1\r\nhost: gateway.test\r\n\r\n")
    await idle.receives("alive")
    slow.send("POST /v1/chat/completions HTTP/1.1\r\nhost: ")
    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
    await Promise.all([idle.closed, slow.closed])
  })

  test("after shutdown.drain what runs is cut, shown as an error, settled as gateway_stopped, exit 0", async () => {
    const gateway = await start({ shutdown: { drain: "1s" } })
    const { key } = await operatorOf(gateway.url).account()
    const ends = await beginStream(gateway, provider, key)
    const { client, exchange } = await beginStream(gateway, provider, key)
    provider.replyOnce(silent())
    const waiting = await rawClient(gateway)
    waiting.send(chatRequest(key))
    const unanswered = await provider.exchange(3)

    gateway.signal("SIGTERM")
    await gateway.prints("draining")
    await finishStream(ends.exchange)
    const shown = await client.receives("0\r\n\r\n")
    expect(shown).toContain('data: {"error":{')
    expect(shown).not.toContain("[DONE]")
    expect(await waiting.receives('"overloaded"')).toStartWith("HTTP/1.1 503")
    await Promise.all([exchange.closed, unanswered.closed])
    expect([exchange.closed_by, unanswered.closed_by]).toEqual(["gateway", "gateway"])
    expect(await gateway.exited).toBe(0)
    const drained = { msg: "drained", calls_finished: 1, calls_cut: 2 }
    expect(lastLine(gateway)).toMatchObject(drained)
    expect(lastLine(gateway).duration_ms).toBeGreaterThanOrEqual(1_000)

    const { calls, ...ledger } = await readLedger(fresh.address)
    expect(ledger).toEqual({ open_holds: 0, violations: [] })
    expect(calls).toMatchObject([
      { state: "released", ending: "gateway_stopped", failure: "no_output" },
      {
        state: "settled",
        basis: "estimate",
        charge_nano: 4_000n,
        ending: "gateway_stopped",
        failure: "gateway_stopped",
      },
      { state: "settled", basis: "usage", ending: "completed" },
    ])
  })

  test("a second signal cuts at once: settled, exit 1 within 2 s", async () => {
    const gateway = await start({})
    const { key } = await operatorOf(gateway.url).account()
    const { exchange } = await beginStream(gateway, provider, key)
    gateway.signal("SIGTERM")
    await gateway.prints("draining")
    await Bun.sleep(APART_MS)
    gateway.signal("SIGTERM")
    expect(await takes(0, 2_000, gateway.exited)).toBe(1)
    const cut = { msg: "shutdown completed early after a second signal", calls_finished: 0, calls_cut: 1 }
    expect(lastLine(gateway)).toMatchObject(cut)
    await exchange.closed
    const { calls, ...ledger } = await readLedger(fresh.address)
    expect(ledger).toEqual({ open_holds: 0, violations: [] })
    expect(calls).toMatchObject([{ state: "settled", basis: "estimate", ending: "gateway_stopped" }])
  })

  test("D27 a second signal while the database does not answer: spooled, exit 1 within 2 s, written by the next start", async () => {
    const proxy = await DatabaseProxy.start(fresh.address)
    try {
      const variables = databaseVariables(proxy.address)
      const gateway = await start({}, variables)
      const { id, key } = await operatorOf(gateway.url).account("1")
      await beginStream(gateway, provider, key)
      gateway.signal("SIGTERM")
      await gateway.prints("draining")
      await Bun.sleep(APART_MS)
      proxy.stall()
      gateway.signal("SIGTERM")
      expect(await takes(0, 2_000, gateway.exited)).toBe(1)
      expect(place.files()).toContain("data/spool")
      expect(await readLedger(fresh.address)).toMatchObject({ open_holds: 1, violations: [] })

      proxy.heal()
      const again = await place.start(variables)
      const { balance, audit } = operatorOf(again.url)
      await untilIs(audit, { open_holds: 0 })
      expect(await balance(id)).toMatchObject({ balance: "0.999996", held: "0" })
      const { calls } = await readLedger(fresh.address)
      expect(calls).toMatchObject([{ state: "settled", basis: "estimate", ending: "gateway_stopped" }])
    } finally {
      await proxy.stop()
    }
  })
})

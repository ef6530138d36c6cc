import { afterAll, describe, expect, test } from "bun:test"
import { execFileSync } from "node:child_process"
import { readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { beginStream, finishStream, text } from "../process/stream.ts"
import { databaseVariables } from "../process/workplace.ts"
import { chat, until, untilIs } from "../support/gateway.ts"
import { HELLO } from "../support/provider.ts"
import { type RawClient, rawClient } from "../support/raw-client.ts"
import { chatRequest } from "../support/request.ts"
import { Scene, type Victim } from "./scene.ts"

/** What happens to a gateway as a process: signals, pauses, clocks, limits. */

/** They begin first, for they last as long as the other tests. */

const scene = await Scene.open()
scene.provider.reply(HELLO)
const dawdlers: Dawdler[] = await Promise.all(
  ["", "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nx: "].map(dawdle),
)
afterAll(() => scene.close())

const LONG = { lease: { renew: "1s", expire: "60s" } }
const WHOLE = { state: "settled", basis: "usage", ending: "completed", charge: "0.00003", failure: null }

async function streams(victim: Victim, key: string, count: number) {
  const begun: Awaited<ReturnType<typeof beginStream>>[] = []
  while (begun.length < count) begun.push(await beginStream(victim, scene.provider, key))
  return begun
}

interface Dawdler {
  readonly client: RawClient
  readonly dripping: Timer
  readonly began_ms: number
}

/** The runtime cuts them after 12 s; the rest is for a busy machine. */
const HEADERS_WITHIN_MS = 20_000

/** A client that sends the beginning of a head and then a byte now and then, or nothing at all. */
async function dawdle(beginning: string): Promise<Dawdler> {
  const client = await rawClient(scene.steady)
  client.send(beginning)
  const dripping = setInterval(() => {
    if (beginning !== "") client.send("x")
  }, 500)
  return { client, dripping, began_ms: performance.now() }
}

describe("D35 a gateway that is frozen past its lease and woken", () => {
  test("its stream goes on under a new row, and its settlement replaces what expiry charged, once", async () => {
    const victim = await scene.victim()
    const { id, key } = await scene.steady.account("1")
    const { client, exchange } = await beginStream(victim, scene.provider, key)
    await exchange.chunk(text(" of all"))
    await untilIs(() => scene.witness.checkpoint(id), "12000")
    victim.gateway.signal("SIGSTOP")
    const [call] = await until(
      () => scene.steady.calls(`?account=${id}`),
      ([call]) => call?.state === "expired",
    )
    expect(call).toMatchObject({ charge: "0.000012", basis: "estimate", failure: "gateway_lost" })
    expect(await scene.steady.balance(id)).toMatchObject({ balance: "0.999988", held: "0" })
    victim.gateway.signal("SIGCONT")
    await finishStream(exchange)
    await client.receives("data: [DONE]\n\n")
    const late = { ...WHOLE, notes: ["settled_late"] }
    await until(
      () => scene.steady.calls(`?account=${id}`),
      ([corrected]) => corrected?.state === "settled",
    )
    expect(await scene.steady.calls(`?account=${id}`)).toMatchObject([late])
    expect(await scene.steady.balance(id)).toMatchObject({ balance: "0.99997", held: "0" })
    expect((await chat(victim, key)).status).toBe(200)
    expect(await victim.stop()).toBe(0)
  })
})

describe("the wall clock", () => {
  test("D35 jumps by hours, forwards and back: calls are served and settled, and no lease lapses", async () => {
    const victim = await scene.victim()
    await victim.kill()
    const file = join(victim.place.folder, "clock")
    const gateway = await victim.place.start({
      ...databaseVariables(victim.database.address),
      BUN_OPTIONS: `--preload=${join(import.meta.dir, "clock.ts")}`,
      TOLLGATE_TEST_CLOCK: file,
    })
    const { id, key } = await scene.steady.account("1")
    const { client, exchange } = await beginStream(gateway, scene.provider, key)
    const ids: string[] = []
    for (const hours of [0, 5, -7, 12]) {
      const wrong_ms = hours * 3_600_000
      writeFileSync(file, String(wrong_ms))
      gateway.signal("SIGUSR2")
      await gateway.prints(`the clock is wrong by ${wrong_ms} ms`)
      const answer = await chat(gateway, key)
      expect(answer.status).toBe(200)
      ids.push(answer.headers.get("x-request-id") ?? "")
      // As long as a lease lasts.
      await Bun.sleep(500)
    }
    await Bun.sleep(1_500)
    expect(ids).toEqual([...ids].sort())
    await finishStream(exchange)
    await client.receives("data: [DONE]\n\n")
    await untilIs(() => scene.steady.balance(id), { held: "0" })
    expect(await scene.steady.calls(`?account=${id}`)).toMatchObject(Array.from({ length: 5 }, () => WHOLE))
    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
  })
})

describe("too many at once", () => {
  test("file descriptors run out: streams go on and are settled, and it serves once there are some", async () => {
    const victim = await scene.victim(() => LONG)
    const { id, key } = await scene.steady.account("1")
    const begun = await streams(victim, key, 5)
    const open = readdirSync(`/proc/${victim.gateway.pid}/fd`).length
    const limit = (files: number) =>
      execFileSync("prlimit", ["--pid", String(victim.gateway.pid), `--nofile=${files}:`])
    limit(open + 10)
    const crowd = await Promise.all(Array.from({ length: 60 }, () => rawClient(victim)))
    for (const client of crowd) client.send(chatRequest(key))
    await Bun.sleep(500)
    for (const { client, exchange } of begun) {
      await finishStream(exchange)
      await client.receives("data: [DONE]\n\n")
    }
    for (const client of crowd) client.leave()
    limit(4_000)
    // Of chat calls the upstream's breaker may still refuse some: for want of a descriptor it could not be reached.
    await untilIs(() => fetch(`${victim.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } }), {
      status: 200,
    })
    await untilIs(() => scene.steady.balance(id), { held: "0" })
    const calls = await scene.steady.calls(`?account=${id}`)
    expect(calls.filter(({ stream }) => stream)).toMatchObject(begun.map(() => WHOLE))
    expect(await victim.stop()).toBe(0)
  })
})

describe("clients that are slow with their headers", () => {
  test("are cut, also one that sends a byte twice a second, and nothing comes of them", async () => {
    for (const { client, dripping, began_ms } of dawdlers) {
      expect((await client.closed) - began_ms).toBeLessThan(HEADERS_WITHIN_MS)
      clearInterval(dripping)
      expect(client.received).toBe("")
    }
  })
})

import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { connect } from "../../src/ledger/database/address.ts"
import { type FreshDatabase, freshDatabase } from "../support/database.ts"
import { takes } from "../support/fair-clock.ts"
import { type ConfigChanges, chat, chatModel, configFor, until, untilIs } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { chatCompletion, json, type Provider, startProvider, usage } from "../support/provider.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import type { GatewayProcess, Variables } from "./gateway-process.ts"
import { beginStream, finishStream, refuses } from "./stream.ts"
import { byWorker, ending, lives, streamsOnAll } from "./worker-streams.ts"
import { databaseVariables, readLedger, type Spawning, Workplace } from "./workplace.ts"

let place: Workplace
let provider: Provider
let fresh: FreshDatabase

beforeEach(async () => {
  place = new Workplace()
  provider = await startProvider()
  fresh = await freshDatabase()
})
afterEach(() => place.clear(provider, fresh))

/** Two signals that are less than half a second apart are one that came twice. */
const APART_MS = 600
const LEASE = { renew: "200ms", expire: "1s" }
const answer = json(200, chatCompletion("hi", { usage: usage(10, 5) }))

function start(changes: ConfigChanges = {}, spawning: Spawning = {}, variables: Variables = {}) {
  place.configure(configFor(provider.url, { workers: 2, lease: LEASE, ...changes }))
  return place.start({ ...databaseVariables(fresh.address), ...variables }, spawning)
}

/** Ends it like an operator would; nothing is left of it, and its ledger is in order. */
async function endTidily(gateway: GatewayProcess) {
  const { workers } = gateway
  const from = gateway.printed.length
  gateway.signal("SIGTERM")
  expect(await gateway.exited).toBe(0)
  expect(gateway.complaint).toBe("")
  expect(gateway.printed.slice(from)).not.toContain("starting a new one")
  expect(workers.filter(lives)).toEqual([])
  expect(place.files()).toEqual(["tollgate.yaml"])
  const { calls, ...ledger } = await readLedger(fresh.address)
  expect(ledger).toEqual({ open_holds: 0, violations: [] })
  return calls
}

async function gatewaysOfCalls(): Promise<string[]> {
  const client = connect(fresh.address, { max: 1 })
  const rows = await client<{ id: string }[]>`select distinct gateway_id::text as id from holds`
  await client.end()
  return rows.map(({ id }) => id)
}

describe("two workers on one port", () => {
  test("both answer, each as a gateway of its own, and every scrape shows both; D51: so does the list of upstreams", async () => {
    const gateway = await start({}, {}, { PORT: "0" })
    expect(gateway.workers).toHaveLength(2)
    const { key } = await operatorOf(gateway.url).account()
    provider.reply(answer)
    let asked = 0
    const settled = () => byWorker(gateway, "tollgate_calls_settled_total")
    while ((await settled()).size < 2) {
      expect((await chat(gateway, key, {}, { keepalive: false })).status).toBe(200)
      asked += 1
    }
    for (let scrape = 0; scrape < 8; scrape++) {
      const counts = [...(await settled()).values()]
      expect(counts.reduce((sum, count) => sum + count, 0)).toBe(asked)
    }
    const text = await operatorOf(gateway.url).metrics()
    const lines = text.trimEnd().split("\n")
    const named = lines.flatMap((line) => /^# TYPE (\S+) /.exec(line)?.[1] ?? [])
    expect(new Set(named).size).toBe(named.length)
    const samples = lines.filter((line) => line !== "" && !line.startsWith("#"))
    expect(samples.filter((line) => !/[{,]worker="[12]"/.test(line))).toEqual([])
    const { data } = await operatorOf(gateway.url).admin<{ data: object[] }>("GET", "/upstreams")
    const ready = { name: "first", state: "ready", failures: 0 }
    for (const worker of [1, 2]) expect(data).toContainEqual(expect.objectContaining({ ...ready, worker }))

    expect(await gatewaysOfCalls()).toHaveLength(2)
    expect(await endTidily(gateway)).toHaveLength(asked)
  })

  test("the command line has the last word; one worker is this process alone", async () => {
    const gateway = await start({ workers: 2 }, { args: ["--workers", "1"] })
    expect(gateway.workers).toEqual([])
    expect(await operatorOf(gateway.url).metrics()).not.toContain("worker=")
    await endTidily(gateway)
  })

  test("D35, D45 one that is killed is replaced, its holds expire, and the other's streams go on", async () => {
    const gateway = await start()
    const operator = operatorOf(gateway.url)
    const { key } = await operator.account()
    const streams = await streamsOnAll(gateway, provider, key, 2)
    const [victim = 0, other] = gateway.workers
    const from = gateway.printed.length
    process.kill(victim, "SIGKILL")
    await gateway.prints('worker 1 exited with SIGKILL; starting a new one in 100 ms"', from)
    const [, again = 0] = await untilIs(() => [...gateway.workers].sort((pid) => (pid === other ? -1 : 1)), {
      length: 2,
    })
    expect(again).not.toBe(victim)

    const { calls } = await readLedger(fresh.address)
    expect(calls).toHaveLength(streams.length)
    const lost = async () => (await operator.calls("?state=expired")).length
    const expired = await until(lost, (count) => count > 0)
    await untilIs(operator.audit, { open_holds: streams.length - expired })
    const finished = streams.map(async ({ client, exchange }) => {
      await finishStream(exchange)
      return await ending(client)
    })
    const ends = await Promise.all(finished)
    expect(ends.filter((end) => end === "cut")).toHaveLength(expired)
    await untilIs(async () => (await byWorker(gateway, "tollgate_open_holds")).size, 2)

    process.kill(again, "SIGKILL")
    await gateway.prints('worker 1 exited with SIGKILL; starting a new one in 200 ms"', from)
    await untilIs(() => gateway.workers, { length: 2 })
    const told = (await endTidily(gateway)).map(({ state, ending }) => `${state} ${ending}`)
    expect(told.filter((call) => call === "expired gateway_lost")).toHaveLength(expired)
    expect(told.filter((call) => call === "settled completed")).toHaveLength(streams.length - expired)
  })
})

describe("D34 a shutdown of all workers", () => {
  test("Ctrl-C, which all of the process group hear and `bun run` passes on, drains: streams to their end, exit 0", async () => {
    const gateway = await start({}, { own_group: true })
    const { key } = await operatorOf(gateway.url).account()
    const streams = await streamsOnAll(gateway, provider, key, 2)
    gateway.signalGroup("SIGINT")
    await Bun.sleep(20)
    gateway.signal("SIGINT")
    await until(() => refuses(gateway), Boolean)
    expect(gateway.workers).toHaveLength(2)
    for (const { client, exchange } of streams) {
      expect(await finishStream(exchange)).toBe(true)
      expect(await ending(client)).toBe("whole")
    }
    expect(await gateway.exited).toBe(0)
    const { calls, ...ledger } = await readLedger(fresh.address)
    expect(ledger).toEqual({ open_holds: 0, violations: [] })
    expect(calls.map(({ ending }) => ending)).toEqual(streams.map(() => "completed"))
    expect(place.files()).toEqual(["tollgate.yaml"])
  })

  test("a second signal hurries all: settled, exit 1 within 2 s, and who does not react any more is killed", async () => {
    const gateway = await start()
    const { key } = await operatorOf(gateway.url).account()
    const streams = await streamsOnAll(gateway, provider, key, 2)
    // A worker that does not answer for a second is not in a scrape.
    const open = await untilIs(() => byWorker(gateway, "tollgate_open_holds"), { size: 2 })
    const left_open = open.get("1") ?? 0
    const { workers } = gateway
    const [frozen = 0] = workers
    process.kill(frozen, "SIGSTOP")
    gateway.signal("SIGTERM")
    await Bun.sleep(APART_MS)
    gateway.signal("SIGTERM")
    expect(await takes(0, 2_000, gateway.exited)).toBe(1)
    expect(workers.filter(lives)).toEqual([])
    const { calls, ...ledger } = await readLedger(fresh.address)
    expect(ledger).toEqual({ open_holds: left_open, violations: [] })
    const settled = calls.filter(({ state }) => state === "settled")
    expect(settled.map(({ ending }) => ending)).toEqual(streams.slice(left_open).map(() => "gateway_stopped"))
  })
})

describe("the configuration of all workers", () => {
  const renamed = (name: string) => ({
    models: [chatModel(name, { upstreams: [{ use: "first" }], price: { input: "1.00", output: "4.00" } })],
  })
  const modelsSeen = async ({ url }: GatewayProcess, key: string) => {
    const seen = new Set<string>()
    for (let asked = 0; asked < 16; asked++) {
      const headers = { authorization: `Bearer ${key}` }
      const listed = await fetch(`${url}/v1/models`, { headers, keepalive: false })
      seen.add(/"id":"([^"]+)"/.exec(await listed.text())?.[1] ?? "")
    }
    return [...seen]
  }

  test("SIGHUP reaches all, a wrong file none, and who comes later goes by what the others go by", async () => {
    const gateway = await start()
    const { key } = await operatorOf(gateway.url).account()
    place.configure(configFor(provider.url, { workers: 2, lease: LEASE, ...renamed("second") }))
    gateway.signal("SIGHUP")
    await gateway.prints("the configuration was reloaded")
    expect(await modelsSeen(gateway, key)).toEqual(["second"])

    place.configure(configFor(provider.url, { limits: { in_flight: 0 } }))
    gateway.signal("SIGHUP")
    await gateway.prints("limits.in_flight: expected an integer from 1 to 60000")
    for (const worker of gateway.workers) process.kill(worker, "SIGKILL")
    await untilIs(() => byWorker(gateway, "process_start_time_seconds").catch(() => new Map()), { size: 2 })
    expect(await modelsSeen(gateway, key)).toEqual(["second"])
    expect((await endTidily(gateway)).length).toBe(0)
  })

  test("SIGHUP during the start is kept for its end, with workers and without", async () => {
    for (const workers of [1, 2]) {
      const proxy = await DatabaseProxy.start(fresh.address)
      try {
        proxy.stall()
        place.configure(configFor(provider.url, { workers }))
        const gateway = place.spawn(databaseVariables(proxy.address))
        await until(
          () => proxy.connections,
          (count) => count > 0,
        )
        gateway.signal("SIGHUP")
        place.configure(configFor(provider.url, { workers, ...renamed("second") }))
        await Bun.sleep(50)
        proxy.heal()
        await gateway.prints("the configuration was reloaded")
        const { key } = await operatorOf(gateway.url).account()
        expect(await modelsSeen(gateway, key)).toEqual(["second"])
        gateway.signal("SIGTERM")
        expect(await gateway.exited).toBe(0)
      } finally {
        await proxy.stop()
      }
    }
  })
})

describe("a start of workers that cannot be is refused in one sentence, with exit code 1, and leaves nobody", () => {
  async function refusal(gateway: GatewayProcess): Promise<string> {
    expect(await gateway.exited).toBe(1)
    expect(gateway.workers).toEqual([])
    expect(gateway.printed).not.toContain("listening")
    return /^tollgate: ([^\n]+)\n$/.exec(gateway.complaint)?.[1] ?? gateway.complaint
  }

  test("a port that other workers listen on, whose sockets would let it in", async () => {
    const gateway = await start()
    const PORT = new URL(gateway.url).port
    const variables = { ...databaseVariables(fresh.address), PORT }
    const sentence = `port ${PORT} on 127.0.0.1 is already in use: stop the program that listens there, or change PORT`
    const other = new Workplace()
    other.configure(configFor(provider.url, { workers: 2 }))
    expect(await refusal(other.spawn(variables))).toBe(sentence)
    expect(await refusal(other.spawn(variables, { args: ["--workers", "1"] }))).toBe(sentence)
    await other.clear()
    await endTidily(gateway)
  })

  test("a worker that is gone before it serves", async () => {
    place.configure(configFor(provider.url, { workers: 2 }))
    const gateway = place.spawn(databaseVariables(fresh.address))
    const [worker = 0] = await until(
      () => gateway.workers,
      ({ length }) => length > 0,
    )
    process.kill(worker, "SIGKILL")
    expect(await refusal(gateway)).toMatch(/^worker [12] exited with SIGKILL during its start$/)
    expect(await readLedger(fresh.address)).toMatchObject({ open_holds: 0, violations: [] })
  })

  test("a worker that has no parent", async () => {
    const child = Bun.spawn([process.execPath, "src/workers/main.ts"], { stderr: "pipe" })
    expect(await child.exited).toBe(1)
    expect(await new Response(child.stderr).text()).toBe(
      "tollgate: a worker cannot be started on its own: use bun run start --workers N\n",
    )
  })
})

test("a worker that is told to go by itself drains, and another takes its place", async () => {
  const gateway = await start()
  const { key } = await operatorOf(gateway.url).account()
  const [streams, before] = [await streamsOnAll(gateway, provider, key, 2), gateway.workers]
  const [leaving = 0] = before
  process.kill(leaving, "SIGTERM")
  for (const { client, exchange } of streams) {
    await finishStream(exchange)
    expect(await ending(client)).toBe("whole")
  }
  await gateway.prints("worker 1 exited with 0; starting a new one")
  await untilIs(() => byWorker(gateway, "process_start_time_seconds"), { size: 2 })
  const { client, exchange } = await beginStream(gateway, provider, key)
  await finishStream(exchange)
  expect(await ending(client)).toBe("whole")
  const calls = await endTidily(gateway)
  expect(calls.map(({ ending }) => ending)).toEqual([...streams, 1].map(() => "completed"))
})

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { execFileSync } from "node:child_process"
import { configFor, until, untilIs } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { type Provider, startProvider } from "../support/provider.ts"
import { finishStream, refuses } from "./stream.ts"
import { byWorker, ending, lives, streamsOnAll } from "./worker-streams.ts"
import { Workplace } from "./workplace.ts"

/** One data directory for the whole file, with one Postgres, which is the parent's. */
const place = new Workplace()
const args = ["--workers", "2"]
afterEach(() => place.killGateways())
afterAll(() => place.clear())

function expectTidy(): void {
  expect(place.postgres()).toEqual([])
  expect(place.files().filter((file) => file !== "tollgate.yaml")).toEqual(["data/demo-key", "data/postgres"])
}

test("D37 the demo has one provider, one Postgres and one key for all workers, and ends tidily", async () => {
  const gateway = place.spawn({}, { args })
  await gateway.prints("curl -sN")
  const [postmaster] = place.postgres()
  expect(gateway.workers).toHaveLength(2)
  const curl = gateway.printed.split("\n").find((line) => line.startsWith("curl ")) ?? "exit 1"
  const settled = () => byWorker(gateway, "tollgate_calls_settled_total")
  while ((await settled()).size < 2) {
    expect(execFileSync("/bin/sh", ["-c", curl], { encoding: "utf8" })).toEndWith("data: [DONE]\n\n")
  }

  for (const worker of gateway.workers) process.kill(worker, "SIGKILL")
  await untilIs(() => byWorker(gateway, "tollgate_open_holds").catch(() => new Map()), { size: 2 })
  expect(place.postgres()).toContain(postmaster ?? 0)
  expect(gateway.printed).not.toContain("embedded Postgres stopped unexpectedly")
  expect((await operatorOf(gateway.url).audit()).violations).toEqual([])
  gateway.signal("SIGTERM")
  expect(await gateway.exited).toBe(0)
  expect(gateway.complaint).toBe("")
  expectTidy()
})

describe("with a configuration", () => {
  let provider: Provider

  beforeAll(async () => {
    provider = await startProvider()
    place.configure(configFor(provider.url))
  })
  afterAll(() => provider.stop())

  test("D34 a SIGTERM that all of the group hear is one, and the database is there until the last worker has drained", async () => {
    const gateway = await place.start({}, { args, own_group: true })
    const { key } = await operatorOf(gateway.url).account("1")
    const streams = await streamsOnAll(gateway, provider, key, 2)
    gateway.signalGroup("SIGTERM")
    await until(() => refuses(gateway), Boolean)
    for (const { client, exchange } of streams) {
      await finishStream(exchange)
      expect(await ending(client)).toBe("whole")
    }
    expect(await gateway.exited).toBe(0)
    expectTidy()
  })

  test("after kill -9 of the parent its Postgres and its workers' streams go on; the next start adopts the one, beside the others", async () => {
    const killed = await place.start({}, { args })
    const { workers } = killed
    const { id, key } = await operatorOf(killed.url).account("1")
    const streams = await streamsOnAll(killed, provider, key, 2)
    killed.signal("SIGKILL")
    await until(() => refuses(killed), Boolean)

    const gateway = await place.start({ PORT: new URL(killed.url).port }, { args })
    expect(gateway.printed).toContain("embedded Postgres adopted")
    const operator = operatorOf(gateway.url)
    expect((await operator.audit()).open_holds).toBe(streams.length)
    for (const { client, exchange } of streams) {
      await finishStream(exchange)
      expect(await ending(client)).toBe("whole")
    }
    await untilIs(() => workers.filter((pid) => lives(pid)), { length: 0 })
    expect(await operator.audit()).toMatchObject({ open_holds: 0, violations: [] })
    const charged = 0.00003 * streams.length
    expect(Number((await operator.balance(id)).balance)).toBeCloseTo(1 - charged, 9)
    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
    expectTidy()
  })
})

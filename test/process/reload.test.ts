import { describe, expect, test } from "bun:test"
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { freshDatabase } from "../support/database.ts"
import { CHAT, chat, chatModel, configFor, until, untilIs } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { chatCompletion, json, startProvider, usage } from "../support/provider.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import { beginStream, finishStream } from "./stream.ts"
import { databaseVariables, testPlace, Workplace } from "./workplace.ts"

/** Nobody dies of an outage here. */
const LONG_LEASE = { renew: "1s", expire: "60s" }

const { place, provider, start } = await testPlace()
const gateway = await start()
const operator = operatorOf(gateway.url)

describe("SIGHUP reads the configuration again", () => {
  /** Sends the signal and waits until the log says this of it; all that it said. */
  async function reload(said: string): Promise<string> {
    const from = gateway.printed.length
    gateway.signal("SIGHUP")
    await gateway.prints(said, from)
    await fetch(`${gateway.url}/livez`)
    return gateway.printed.slice(from)
  }

  const renamed = (name: string, input: string) => ({
    models: [chatModel(name, { upstreams: [{ use: "first" }], price: { input, output: "4.00" } })],
  })

  test("a right one holds for new calls; those in flight keep the price they were admitted at", async () => {
    const { id, key } = await operator.account("1")
    const { client, exchange } = await beginStream(gateway, provider, key)
    place.configure(configFor(provider.url, renamed("dearer", "7.00")))
    const said = await reload("the configuration was reloaded")
    expect(said).toContain('"models":1,"upstreams":2,"msg"')
    expect(said).not.toContain("restart")

    const listed = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
    expect(await listed.json()).toMatchObject({ data: [{ id: "dearer" }] })
    expect((await chat(gateway, key)).status).toBe(404)
    provider.replyOnce(json(200, chatCompletion("hi", { usage: usage(10, 5) })))
    const dearer = await operator.callOf(await chat(gateway, key, { model: "dearer" }))
    expect(dearer).toMatchObject({ charge: "0.00009", prices: { input: "7" } })

    await finishStream(exchange)
    await client.receives("data: [DONE]\n\n")
    const calls = await operator.calls(`?account=${id}`)
    expect(calls).toMatchObject([{ model: "dearer" }, { charge: "0.00003", prices: { input: "1" } }])
  })

  test("a wrong one is refused by the path of its key, and the old one stays", async () => {
    const { key } = await operator.account("1")
    place.configure({ ...configFor(provider.url), limits: { in_flight: 0 } })
    expect(await reload("the configuration was not reloaded: the previous one stays in use")).toContain(
      "tollgate.yaml: limits.in_flight: expected an integer from 1 to 60000",
    )
    provider.replyOnce(json(200, chatCompletion("hi")))
    expect((await chat(gateway, key, { model: "dearer" })).status).toBe(200)
  })

  test("what is read at the start only is told to need a restart, until the file is as it was", async () => {
    const changes = { lease: { renew: "1s", expire: "9s" }, workers: 2 }
    place.configure({ ...configFor(provider.url), ...changes })
    expect(await reload('"level":40')).toContain(
      "restart the gateway to apply the new values of lease, workers",
    )
    place.configure(configFor(provider.url))
    expect(await reload("the configuration was reloaded")).not.toContain("restart")
  })

  test("the ledger is in order afterwards, and SIGTERM ends it", async () => {
    await untilIs(operator.audit, { open_holds: 0 })
    expect((await operator.audit()).violations).toEqual([])
    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
  })
})

test.concurrent("D82 a key file that changes is read again without a signal, by every worker; one that is gone keeps its last key", async () => {
  const place = new Workplace()
  const provider = await startProvider()
  const fresh = await freshDatabase()
  const file = join(place.folder, "token")
  writeFileSync(file, "token-1\n")
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the file
  const first = { family: "chat", base_url: `${provider.url}/v1`, api_key: "${file:token}" }
  const { upstreams } = configFor(provider.url) as { upstreams: object }
  place.configure(configFor(provider.url, { workers: 2, upstreams: { ...upstreams, first } }))
  const gateway = await place.start(databaseVariables(fresh.address))
  const { key } = await operatorOf(gateway.url).account("1")
  provider.reply(json(200, chatCompletion("hi", { usage: usage(10, 5) })))
  /** The tokens that both workers call with: each connection goes to one of them. */
  const tokens = async () => {
    const from = provider.requests.length
    await Promise.all(Array.from({ length: 8 }, async () => (await chat(gateway, key)).bytes()))
    return new Set(provider.requests.slice(from).map(({ headers }) => headers.authorization))
  }
  expect(await tokens()).toEqual(new Set(["Bearer token-1"]))
  writeFileSync(file, "token-2\n")
  await gateway.prints("its new content is in use")
  expect(await tokens()).toEqual(new Set(["Bearer token-2"]))
  rmSync(file)
  await gateway.prints("its last content stays in use")
  expect(await tokens()).toEqual(new Set(["Bearer token-2"]))
  gateway.signal("SIGTERM")
  expect(await gateway.exited).toBe(0)
  await place.clear(provider, fresh)
})

/** How it is away, for which the next model is named. */
const faults: readonly [string, (database: DatabaseProxy) => void, (database: DatabaseProxy) => void][] = [
  ["refused", (database) => database.refuse(), (database) => database.admit()],
  ["silent", (database) => database.stall(), (database) => database.heal()],
]
test.concurrent.each([1, 2])(
  "D56 SIGHUP while the database is away with %i workers: the file is refused, the old one stays, and is read once the database is back",
  async (workers) => {
    const place = new Workplace()
    const provider = await startProvider()
    const fresh = await freshDatabase()
    const database = await DatabaseProxy.start(fresh.address)
    const config = (changes: object) => configFor(provider.url, { workers, lease: LONG_LEASE, ...changes })
    place.configure(config({}))
    const gateway = await place.start(databaseVariables(database.address))
    const operator = operatorOf(gateway.url)
    const { key } = await operator.account("1")
    const listed = async () => {
      const answers = await Promise.all(
        Array.from({ length: 4 * workers }, () =>
          fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } }),
        ),
      )
      const lists: { data: { id: string }[] }[] = await Promise.all(
        answers.map(async (answer) => JSON.parse(await answer.text())),
      )
      return new Set(lists.map(({ data }) => data.map(({ id }) => id).join()))
    }
    const reload = async (said: string) => {
      const from = gateway.printed.length
      gateway.signal("SIGHUP")
      await gateway.prints(said, from)
      return gateway.printed.slice(from)
    }
    const [model] = config({}).models as object[]
    let present = CHAT
    for (const [name, begin, end] of faults) {
      place.configure(config({ models: [{ ...model, name }] }))
      begin(database)
      const said = await reload("the configuration was not reloaded: the previous one stays in use")
      expect(said).toContain("cannot use the database")
      end(database)
      // New workers go by the old one, too.
      const { length } = gateway.printed
      const { workers: killed } = gateway
      for (const worker of killed) process.kill(worker, "SIGKILL")
      for (const at of killed.keys())
        await gateway.prints(`worker ${at + 1} exited with SIGKILL; starting a new one`, length)
      expect(
        await until(
          () => listed().catch(() => new Set<string>()),
          (seen) => seen.size > 0,
        ),
      ).toEqual(new Set([present]))
      await reload("the configuration was reloaded")
      expect(await listed()).toEqual(new Set([name]))
      present = name
    }
    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
    await database.stop()
    await place.clear(provider, fresh)
  },
)

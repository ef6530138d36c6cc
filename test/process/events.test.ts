import { afterEach, beforeEach, expect, test } from "bun:test"
import { join } from "node:path"
import { type FreshDatabase, freshDatabase } from "../support/database.ts"
import { chat, configFor, until } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { chatCompletion, json, type Provider, startProvider, usage } from "../support/provider.ts"
import type { GatewayProcess } from "./gateway-process.ts"
import { databaseVariables, Workplace } from "./workplace.ts"

/** D96: gateways that deliver events are killed, one after the other. */

let place: Workplace
let provider: Provider
let fresh: FreshDatabase
beforeEach(async () => {
  place = new Workplace()
  provider = await startProvider()
  provider.reply(json(200, chatCompletion("hi", { usage: usage(10, 5) })))
  fresh = await freshDatabase()
  place.configure(configFor(provider.url, { lease: { renew: "200ms", expire: "1s" } }))
})
afterEach(() => place.clear(provider, fresh))

const start = (name: string): Promise<GatewayProcess> =>
  place.start({ ...databaseVariables(fresh.address), TOLLGATE_DATA_DIR: join(place.folder, name) })

test("D96: no event is lost when the gateway that delivers is killed, again and again", async () => {
  const got = new Set<string>()
  let asked = 0
  let killing: GatewayProcess | null = null
  const receiver = Bun.serve({
    port: 0,
    async fetch(request) {
      await request.text()
      asked += 1
      if (killing !== null && asked % 7 === 0) {
        // While messages are on their way.
        killing.signal("SIGKILL")
        killing = null
        return new Response(null, { status: 500 })
      }
      got.add(request.headers.get("webhook-id") ?? "")
      return new Response(null, { status: 204 })
    },
  })
  let gateway = await start("a")
  const operator = operatorOf(gateway.url)
  const { key } = await operator.account("10")
  await operator.admin("POST", "/sinks", { name: "billing", url: receiver.url.href, allow_private: true })
  const calls: string[] = []
  for (let round = 0; round < 3; round += 1) {
    const next = await start(`next-${round}`)
    // Of ten messages one is the seventh.
    killing = gateway
    for (let at = 0; at < 10; at += 1) {
      const answer = await chat(next, key)
      calls.push(answer.headers.get("x-request-id") ?? "")
      await answer.bytes()
    }
    await gateway.exited
    gateway = next
  }
  await until(
    async () => calls.filter((id) => !got.has(id)),
    (missing) => missing.length === 0,
  )
  expect(new Set(calls).size).toBe(30)
  await receiver.stop(true)
})

import { expect, test } from "bun:test"
import { untilIs } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { rawClient } from "../support/raw-client.ts"
import { chatRequest } from "../support/request.ts"
import { text } from "./stream.ts"
import { testPlace } from "./workplace.ts"

const READERS = 20
const OFFERED_BYTES = 60_000_000
/** Measured: 6 to 8 MiB, however much is offered; most of it is what had passed until the client's buffers were full. */
const EACH_MIB = 12

const { provider, start } = await testPlace({ stream: { stall: "1s" } })

test("D8 clients that read nothing cost the gateway a bounded amount of memory each, and are cut after stream.stall", async () => {
  const gateway = await start()
  const { account, audit, calls } = operatorOf(gateway.url)
  const { id, key } = await account()
  const event = text("x".repeat(65_536))
  const chunk = Buffer.from(`${event.length.toString(16)}\r\n${event}\r\n`)
  provider.reply(async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream" })
    for (let sent = 0; sent < OFFERED_BYTES && (await exchange.raw(chunk)); ) sent += chunk.length
  })
  const before_mib = gateway.peak_mib
  for (let reader = 0; reader < READERS; reader++) {
    const client = await rawClient(gateway)
    client.stopReading()
    client.send(chatRequest(key, { stream: true }))
  }
  await untilIs(() => calls(`?account=${id}&state=settled`), { length: READERS })
  expect(gateway.peak_mib - before_mib).toBeLessThan(READERS * EACH_MIB)
  for (const call of await calls(`?account=${id}`)) expect(call).toMatchObject({ ending: "client_stalled" })
  expect(await audit()).toMatchObject({ open_holds: 0, violations: [] })
  gateway.signal("SIGTERM")
  expect(await gateway.exited).toBe(0)
  expect(gateway.complaint).toBe("")
})

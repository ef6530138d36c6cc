import { describe, expect, test } from "bun:test"
import { makeKey } from "../../src/admission/key.ts"
import { CHAT } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { chatCompletion, HELLO, heldBack, usage } from "../support/provider.ts"
import { type RawClient, rawClient } from "../support/raw-client.ts"
import type { GatewayProcess } from "./gateway-process.ts"
import { testPlace } from "./workplace.ts"

const MIB = 1024 ** 2
const MEMORY_MIB = 128
const BODY_MIB = 20
/** All that a gateway may use besides: code, connections, buffers of the sockets. */
const BESIDES_MIB = 64
const CONNECTIONS = Number(process.env.BODY_CONNECTIONS ?? 24)

const BODY = Buffer.from(
  `{"model":"${CHAT}","messages":[{"role":"user","content":"${"x".repeat(BODY_MIB * MIB - 1_000)}"}]}`,
)

/** Sends the body but for its last byte, as fast as it is taken, and never the rest. */
async function almost(gateway: GatewayProcess, key: string): Promise<RawClient> {
  const client = await rawClient(gateway)
  const head = [
    "POST /v1/chat/completions HTTP/1.1",
    "host: x",
    `authorization: Bearer ${key}`,
    "content-type: application/json",
    `content-length: ${BODY.length}`,
  ]
  client.send(`${head.join("\r\n")}\r\n\r\n`)
  client.send(BODY.subarray(0, -1))
  return client
}

/** Many such requests of a key. Resolves when `count` of them are over, with the statuses of those that got an answer. */
async function refusedOf(gateway: GatewayProcess, key: string, count: number): Promise<number[]> {
  const clients = await Promise.all(Array.from({ length: CONNECTIONS }, () => almost(gateway, key)))
  const statuses: number[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  let over = 0
  for (const client of clients) {
    void client
      .answer("POST")
      .then(
        ({ status }) => void statuses.push(status),
        // Beyond the first refused ones, connections are closed at once.
        () => {},
      )
      .then(() => {
        over += 1
        if (over === count) resolve()
      })
  }
  await promise
  for (const client of clients) client.leave()
  return statuses
}

const { provider, start } = await testPlace({ limits: { memory: `${MEMORY_MIB}MiB`, body_timeout: "90s" } })
provider.reply(HELLO)
const gateway = await start()
const base_mib = gateway.peak_mib

describe("D77 bodies on their way", () => {
  /** Sends a short call, which is answered whatever else arrives. */
  async function served(key: string): Promise<number> {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" }
    const body = JSON.stringify({ model: CHAT, messages: [{ role: "user", content: "x" }] })
    return (await fetch(`${gateway.url}/v1/chat/completions`, { method: "POST", headers, body })).status
  }

  test("of keys that nobody has take none", async () => {
    const statuses = await refusedOf(gateway, makeKey(), CONNECTIONS)
    // 503 if too many wait for the ledger to look up their keys.
    expect(statuses).toContain(401)
    expect(statuses.filter((status) => status !== 401 && status !== 503)).toEqual([])
    expect(gateway.peak_mib).toBeLessThan(base_mib + BESIDES_MIB)
  })

  test("of customers stay within limits.memory; others are served meanwhile", async () => {
    const { account } = operatorOf(gateway.url)
    const [greedy, modest] = [await account("1000"), await account("1")]
    expect([await served(greedy.key), await served(modest.key)]).toEqual([200, 200])
    // One of them gets the memory that it needs, and waits for its last byte.
    const refused = refusedOf(gateway, greedy.key, CONNECTIONS - 1)
    expect(await served(modest.key)).toBe(200)
    expect(new Set(await refused)).toEqual(new Set([503]))
    expect(gateway.peak_mib).toBeLessThan(base_mib + MEMORY_MIB + BESIDES_MIB)
  })

  test("that are whole are sent one after the other within it, and are free while providers answer", async () => {
    const { account, calls } = operatorOf(gateway.url)
    const { id, key } = await account("1000")
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" }
    const begun = provider.exchanges.length
    const slow = async (call: number) => {
      const body = JSON.stringify(chatCompletion("hi", { usage: usage(10, 5) }))
      const { promise: begins, resolve } = Promise.withResolvers<void>()
      const { held, release } = heldBack(async (exchange) => {
        await exchange.chunk(body)
        await exchange.end()
      })
      provider.replyOnce(async (exchange) => {
        await exchange.head(200, { "content-type": "application/json" })
        await exchange.chunk(" ")
        resolve()
        await held(exchange)
      })
      const answer = fetch(`${gateway.url}/v1/chat/completions`, { method: "POST", headers, body: BODY })
      await provider.exchange(begun + call)
      await begins
      return { answer, release }
    }
    const sent: Awaited<ReturnType<typeof slow>>[] = []
    for (let call = 1; call <= 3; call++) sent.push(await slow(call))
    expect(gateway.peak_mib).toBeLessThan(base_mib + MEMORY_MIB + BESIDES_MIB)
    for (const { release } of sent) release()
    const statuses = await Promise.all(sent.map(async ({ answer }) => (await answer).status))
    expect(statuses).toEqual(Array(3).fill(200))
    expect(await calls(`?account=${id}&state=settled`)).toHaveLength(3)
  })
})

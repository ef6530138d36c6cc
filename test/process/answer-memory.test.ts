import { expect, test } from "bun:test"
import { until, untilIs } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { chatCompletion, heldBack, json, usage } from "../support/provider.ts"
import { rawClient } from "../support/raw-client.ts"
import { chatBody, chatRequest, postJson } from "../support/request.ts"
import { testPlace } from "./workplace.ts"

const MIB = 1024 ** 2
const MEMORY_MIB = 128
const ANSWER_MIB = 8
const ANSWERS = 30
/** The answers that the gateway reads while no client reads: they take 1.5 times the memory. */
const READ = (1.5 * MEMORY_MIB) / ANSWER_MIB
/** All that a gateway may use besides: code, connections, parts of answers that were joined. */
const BESIDES_MIB = 96

const answered = (content: string) => json(200, chatCompletion(content, { usage: usage(10, 5) }))

const { provider, start } = await testPlace({ limits: { memory: `${MEMORY_MIB}MiB` } })
const gateway = await start()

test("D77 an unread answer counts until its client reads it or leaves, and further answers of its account wait", async () => {
  const { account, audit, calls } = operatorOf(gateway.url)
  const [greedy, modest] = [await account("1000"), await account("1")]
  provider.reply(answered("hi"))
  const statusOf = async (key: string, content: string) => {
    const messages = [{ role: "user", content }]
    return (await postJson(`${gateway.url}/v1/chat/completions`, key, chatBody({ messages }))).status
  }
  expect([await statusOf(greedy.key, "x"), await statusOf(modest.key, "x")]).toEqual([200, 200])
  const before_mib = gateway.peak_mib
  const { held, release } = heldBack(answered("x".repeat(ANSWER_MIB * MIB)))
  provider.replyOnce(...Array<typeof held>(ANSWERS).fill(held))
  const clients = await Promise.all(Array.from({ length: ANSWERS }, () => rawClient(gateway)))
  for (const client of clients) {
    client.stopReading()
    client.send(chatRequest(greedy.key))
  }
  await provider.exchange(2 + ANSWERS)
  release()
  const settled = () => calls(`?account=${greedy.id}&state=settled`)
  await untilIs(settled, { length: 1 + READ })
  expect(await statusOf(greedy.key, "x")).toBe(503)
  expect(await statusOf(modest.key, "x".repeat(4 * MIB))).toBe(503)
  expect(await statusOf(modest.key, "x")).toBe(200)
  expect(await settled()).toHaveLength(1 + READ)
  expect(gateway.peak_mib - before_mib).toBeLessThan(READ * ANSWER_MIB + BESIDES_MIB)

  const [reader, ...others] = clients
  for (const [at, client] of others.entries()) {
    if (at % 2 === 0) client.leave()
    else client.reset()
  }
  // Its answer may be one of those that wait.
  reader?.readOn()
  const answer = await reader?.answer("POST")
  expect(answer?.json).toMatchObject({ choices: [{ message: { content: "x".repeat(ANSWER_MIB * MIB) } }] })
  await until(
    () => statusOf(greedy.key, "x".repeat(4 * MIB)),
    (status) => status === 200,
  )
  await untilIs(audit, { open_holds: 0 })
  expect(await audit()).toMatchObject({ open_holds: 0, violations: [] })
  gateway.signal("SIGTERM")
  expect(await gateway.exited).toBe(0)
  expect(gateway.complaint).toBe("")
})

import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { beginStream, finishStream } from "../process/stream.ts"
import { chat, until } from "../support/gateway.ts"
import { chatCompletion, json, usage } from "../support/provider.ts"
import { Scene, type Victim } from "./scene.ts"

/** More than a gateway can carry. */

const IN_FLIGHT = 24
const STREAMS = 8
const PROVIDER_MS = 100
/** What the provider's time and the places that the streams leave allow. */
const PEAK_PER_S = (IN_FLIGHT - STREAMS) * (1_000 / PROVIDER_MS)
const SECONDS = 2

let scene: Scene
let victim: Victim

beforeAll(async () => {
  scene = await Scene.open()
  const answer = json(200, chatCompletion("hello", { usage: usage(10, 5) }))
  scene.provider.reply(async (exchange) => {
    await Bun.sleep(PROVIDER_MS)
    await answer(exchange)
  })
  victim = await scene.victim(() => ({
    lease: { renew: "1s", expire: "60s" },
    limits: { in_flight: IN_FLIGHT },
  }))
})
afterAll(() => scene.close())

/** Calls that begin at this rate, whatever becomes of them. */
async function offer(key: string, per_s: number) {
  const began_ms = performance.now()
  const answers = Array.from({ length: per_s * SECONDS }, async (_, at) => {
    await Bun.sleep((at / per_s) * 1_000)
    const asked_ms = performance.now()
    const answer = await chat(victim, key)
    await answer.arrayBuffer()
    return { answer, took_ms: performance.now() - asked_ms }
  })
  const ended = await Promise.all(answers)
  const seconds = (performance.now() - began_ms) / 1_000
  const served = ended.filter(({ answer }) => answer.status === 200).length
  return { ended, served, goodput_per_s: served / seconds }
}

describe("D33 three times what a gateway can carry", () => {
  test("is refused early, before a hold, with a small Retry-After; goodput stays, and no stream that runs is shed", async () => {
    const { id, key } = await scene.steady.account("100")
    const begun: Awaited<ReturnType<typeof beginStream>>[] = []
    while (begun.length < STREAMS) begun.push(await beginStream(victim, scene.provider, key))

    const at_peak = await offer(key, PEAK_PER_S)
    const beyond = await offer(key, 3 * PEAK_PER_S)
    expect(beyond.goodput_per_s).toBeGreaterThan(0.9 * at_peak.goodput_per_s)
    const refused = beyond.ended.filter(({ answer }) => answer.status !== 200)
    expect(refused.length).toBeGreaterThan(PEAK_PER_S * SECONDS)
    for (const { answer } of refused)
      expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"])
    const waits_ms = refused.map(({ took_ms }) => took_ms).sort((a, b) => a - b)
    expect(waits_ms[Math.floor(waits_ms.length / 2)]).toBeLessThan(PROVIDER_MS)

    for (const { client, exchange } of begun) {
      await finishStream(exchange)
      await client.receives("data: [DONE]\n\n")
      client.leave()
    }
    await until(
      () => scene.steady.balance(id),
      ({ held }) => held === "0",
    )
    const calls = await scene.witness.calls()
    expect(calls).toHaveLength(at_peak.served + beyond.served + STREAMS)
    expect(new Set(calls.map(({ state, basis }) => `${state} ${basis}`))).toEqual(new Set(["settled usage"]))
  }, 30_000)
})

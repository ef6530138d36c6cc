import { describe, expect, test } from "bun:test"
import { expectError, expectIds } from "../http/errors.ts"
import { testHarness } from "../http/harness.ts"
import type { Answer } from "../support/answer.ts"
import { ADMIN_TOKEN, until, untilIs } from "../support/gateway.ts"
import {
  chatWords,
  type Exchange,
  HELLO,
  heldBack,
  sseEvent,
  usage,
  usageChunk,
} from "../support/provider.ts"

/** What this gateway may carry, how much of it runs all the time, and three times the rest. */
const PLACES = 12
const STREAMS = 4
const CAPACITY = PLACES - STREAMS
const OFFERED = 3 * CAPACITY
const WAVES = 5

const harness = await testHarness({ limits: { in_flight: PLACES } })
const account = await harness.account()

const admin = `authorization: Bearer ${ADMIN_TOKEN}`

/** Streams that run until they are told to end. */
async function openStreams() {
  const exchanges: Exchange[] = []
  harness.provider.reply(async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream" })
    await exchange.chunk(chatWords("one").map(sseEvent).join(""))
    exchanges.push(exchange)
  })
  const answers = Array.from({ length: STREAMS }, () => harness.chat(account.key, { stream: true }))
  await untilIs(() => exchanges.length, STREAMS)
  return {
    async say(word: string) {
      for (const exchange of exchanges)
        await exchange.chunk(sseEvent({ choices: [{ index: 0, delta: { content: word } }] }))
    },
    async end() {
      for (const exchange of exchanges) {
        await exchange.chunk(`${sseEvent(usageChunk(usage(10, 5)))}data: [DONE]\n\n`)
        await exchange.end()
      }
      return Promise.all(answers)
    },
  }
}

/** No call of the account holds anything but the streams: their places are free. */
async function rest(calls_open: number): Promise<void> {
  await untilIs(harness.gateway.audit, { open_holds: calls_open })
}

/** As many calls at once as are offered; those that have a place are answered once all others have been refused. */
async function wave(count: number): Promise<Answer[]> {
  const { held, release } = heldBack(HELLO)
  harness.provider.reply(held)
  const answers: Answer[] = []
  const asked = Array.from({ length: count }, async () => {
    answers.push(await harness.chat(account.key))
  })
  await until(
    () => answers.length,
    (refused) => refused >= count - CAPACITY,
  )
  release()
  await Promise.all(asked)
  return answers
}

describe("D33 three times what the gateway may carry", () => {
  test("all it can carry is carried, the excess is refused before any hold, and no stream is shed", async () => {
    const streams = await openStreams()
    const asked = harness.provider.requests.length
    let served = 0
    for (let number = 1; number <= WAVES; number++) {
      await rest(STREAMS)
      const answers = await wave(OFFERED)
      const refused = answers.filter(({ status }) => status !== 200)
      for (const answer of refused) {
        expectError(answer, "overloaded", { headers: { "retry-after": "1" } })
        const { status } = await harness.ask({
          target: `/admin/calls/${expectIds(answer)}`,
          headers: [admin],
        })
        expect(status).toBe(404)
      }
      served += answers.length - refused.length
      await streams.say(` wave ${number}`)
    }
    expect(served).toBe(WAVES * CAPACITY)
    expect(harness.provider.requests.length - asked).toBe(served)
    for (const { status, body } of await streams.end()) {
      expect(status).toBe(200)
      expect(body).toContain(` wave ${WAVES}`)
      expect(body).toEndWith("data: [DONE]\n\n")
    }
    await rest(0)
  })
})

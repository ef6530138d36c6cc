import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { endOne } from "../../src/ledger/money/end.ts"
import { holdOneKey } from "../../src/ledger/money/hold.ts"
import { parseUsd, printUsd } from "../../src/money.ts"
import { text } from "../process/stream.ts"
import { EARLY_COMMENTS, untilIs } from "../support/gateway.ts"
import { chatCompletion, type Exchange, json, sseEvent, usage, usageChunk } from "../support/provider.ts"
import { type RawClient, rawClient } from "../support/raw-client.ts"
import { chatRequest } from "../support/request.ts"
import { Scene, type Victim } from "./scene.ts"
import { CHECKPOINT } from "./witness.ts"

/** The gateway is killed at each moment of a call; another one closes what was left. */

/** Gateways, whose start takes all of the processor. */
const AT_A_TIME = 8

let scene: Scene
const requests = new Map<string, PromiseWithResolvers<Exchange>>()
const killed = new Map<string, Killed>()

beforeAll(async () => {
  scene = await Scene.open()
  scene.provider.reply((exchange) => exchangeOf(exchange.request.body).resolve(exchange))
  const left = [...moments]
  const some = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const [name, , lead] = next
      killed.set(name, await kill(name, lead))
    }
  }
  await Promise.all(Array.from({ length: AT_A_TIME }, some))
  await scene.quiet()
}, 300_000)
afterAll(() => scene.close())

interface Scenery extends Pick<Victim, "database"> {
  ask(stream: boolean): Promise<RawClient>
  readonly asked: Promise<Exchange>
  /** The stream after its headers, and as many words of output as there are. */
  say(...words: readonly string[]): Promise<Exchange>
  /** The rest of a stream with its final usage, or a whole JSON answer. */
  end(): Promise<void>
  /** Resolves once the ledger knows that so much would be charged. */
  noted(nano: string): Promise<void>
  kill(): Promise<void>
}

/** What was seen of it until its gateway was gone. */
interface Killed {
  readonly account_id: string
  readonly received: string
  /** From the provider's last byte until the gateway was gone, at least. */
  readonly outlived_ms: number
}

const NOBODY: Killed = { account_id: "", received: "", outlived_ms: 0 }

/** So long the last byte waits for its settlement (D32). On a busy machine a kill may come later. */
const SETTLED_WITHIN_MS = 250

const FREE = { charge: "0", basis: "none", usage: null }
const LOST = { ending: "gateway_lost", failure: "gateway_lost" }
const expired = { state: "expired", ...LOST, ...FREE }
/** By rule 5: eight bytes are two tokens at 4,000 nano-USD. */
const observed = {
  ...expired,
  charge: "0.000008",
  basis: "estimate",
  usage: { prompt_tokens: 0, cached_tokens: 0, completion_tokens: 2 },
}
const whole = { state: "settled", charge: "0.00003", basis: "usage", ending: "completed", failure: null }

const moments: readonly [name: string, recorded: object | null, lead: (call: Scenery) => Promise<void>][] = [
  [
    "before its hold is asked for",
    null,
    async ({ ask, database, kill }) => {
      const asked = database.meet(holdOneKey, "asked")
      await ask(true)
      const { lose } = await asked
      await kill()
      lose()
    },
  ],
  [
    "while its hold is on the way, which then arrives",
    expired,
    async ({ ask, database, kill }) => {
      const asked = database.meet(holdOneKey, "asked")
      await ask(true)
      const { pass } = await asked
      await kill()
      pass()
    },
  ],
  [
    "once its hold is made, before it knows",
    expired,
    async ({ ask, database, kill }) => {
      const done = database.meet(holdOneKey, "done")
      await ask(true)
      const { lose } = await done
      await kill()
      lose()
    },
  ],
  [
    "when the provider was asked for a stream, before its headers",
    expired,
    async ({ ask, asked, kill }) => {
      await ask(true)
      await asked
      await kill()
    },
  ],
  [
    "after the headers, before the first output",
    expired,
    async ({ ask, say, kill }) => {
      const client = await ask(true)
      await say()
      await client.receives(": ok")
      await kill()
    },
  ],
  [
    "in the middle of a stream, before its first checkpoint arrives",
    expired,
    async ({ ask, database, say, kill }) => {
      const asked = database.meet(CHECKPOINT, "asked")
      const client = await ask(true)
      await say("eight by")
      await client.receives("eight by")
      const { lose } = await asked
      await kill()
      lose()
    },
  ],
  [
    "D13 in the middle of a stream: charged by rule 5 from the last checkpoint, not for what came later",
    observed,
    async ({ ask, database, say, noted, kill }) => {
      const client = await ask(true)
      const { chunk } = await say("eight by")
      await noted("8000")
      const next = database.meet(CHECKPOINT, "asked")
      await chunk(text("and more"))
      await client.receives("and more")
      const { lose } = await next
      await kill()
      lose()
    },
  ],
  [
    "D13 after the final usage, before the settlement is on its way: the last checkpoint",
    observed,
    async ({ ask, database, say, noted, end, kill }) => {
      await ask(true)
      await say("eight by")
      await noted("8000")
      const settling = database.meet(endOne, "asked")
      await end()
      const { lose } = await settling
      await kill()
      lose()
    },
  ],
  [
    "while the settlement is on the way, which then arrives",
    whole,
    async ({ ask, database, say, end, kill }) => {
      const settling = database.meet(endOne, "asked")
      await ask(true)
      await say("eight by")
      await end()
      const { pass } = await settling
      await kill()
      pass()
    },
  ],
  [
    "once it is settled, before it knows",
    whole,
    async ({ ask, database, say, end, kill }) => {
      const settled = database.meet(endOne, "done")
      await ask(true)
      await say("eight by")
      await end()
      const { lose } = await settled
      await kill()
      lose()
    },
  ],
  [
    "when the provider was asked for JSON",
    expired,
    async ({ ask, asked, kill }) => {
      await ask(false)
      await asked
      await kill()
    },
  ],
  [
    "with the whole JSON answer, before the settlement is on its way",
    expired,
    async ({ ask, database, end, kill }) => {
      const settling = database.meet(endOne, "asked")
      await ask(false)
      await end()
      const { lose } = await settling
      await kill()
      lose()
    },
  ],
  [
    "once a JSON answer is settled, before it leaves",
    whole,
    async ({ ask, database, end, kill }) => {
      const settled = database.meet(endOne, "done")
      await ask(false)
      await end()
      const { lose } = await settled
      await kill()
      lose()
    },
  ],
]

const answer = json(200, chatCompletion("hello there", { usage: usage(10, 5) }))

function exchangeOf(body: string): PromiseWithResolvers<Exchange> {
  const name = moments.find(([moment]) => body.includes(moment))?.[0] ?? body
  const asked = requests.get(name) ?? Promise.withResolvers<Exchange>()
  requests.set(name, asked)
  return asked
}

/** Each call has a gateway, an account and a prompt of its own, so that several can be killed at a time. */
async function kill(name: string, lead: (call: Scenery) => Promise<void>): Promise<Killed> {
  const { id, key } = await scene.steady.account("1")
  const victim = await scene.victim(() => EARLY_COMMENTS)
  const client = await rawClient(victim)
  const asked = exchangeOf(name).promise
  let streaming = false
  let ended_ms = Number.POSITIVE_INFINITY
  await lead({
    database: victim.database,
    asked,
    async ask(stream) {
      streaming = stream
      client.send(chatRequest(key, { stream, messages: [{ role: "user", content: name }] }))
      return client
    },
    async say(...words) {
      const exchange = await asked
      await exchange.head(200, { "content-type": "text/event-stream" })
      for (const word of words) await exchange.chunk(text(word))
      return exchange
    },
    async end() {
      const exchange = await asked
      ended_ms = performance.now()
      if (streaming) await exchange.chunk(`${sseEvent(usageChunk(usage(10, 5)))}data: [DONE]\n\n`)
      else await answer(exchange)
    },
    async noted(nano) {
      await untilIs(() => scene.witness.checkpoint(id), nano)
    },
    kill: () => victim.kill(),
  })
  const outlived_ms = performance.now() - ended_ms
  await client.closed
  return { account_id: id, received: client.received, outlived_ms }
}

describe("a gateway that is killed", () => {
  test.each(moments)("%s", async (name, recorded) => {
    const { account_id, received, outlived_ms } = killed.get(name) ?? NOBODY
    const calls = await scene.steady.calls(`?account=${account_id}`)
    expect(calls).toMatchObject(recorded === null ? [] : [recorded])
    const charge_nano = parseUsd(String(calls[0]?.charge ?? "0")) ?? 0n
    const { balance, held } = await scene.steady.balance(account_id)
    expect([balance, held]).toEqual([printUsd(1_000_000_000n - charge_nano), "0"])
    expect(scene.provider.requests.filter(({ body }) => body.includes(name)).length).toBeLessThanOrEqual(1)
    const whole = received.includes("[DONE]") || received.includes("hello there")
    expect(whole && outlived_ms < SETTLED_WITHIN_MS).toBe(false)
  })
})

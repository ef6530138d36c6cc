import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { endOne } from "../../src/ledger/money/end.ts"
import { holdOneKey } from "../../src/ledger/money/hold.ts"
import { parseUsd, printUsd } from "../../src/money.ts"
import { text } from "../process/stream.ts"
import { EARLY_COMMENTS, untilIs } from "../support/gateway.ts"
import { chatCompletion, type Exchange, json, sseEvent, usage, usageChunk } from "../support/provider.ts"
import type { Place, Wanted } from "../support/proxy.ts"
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
      killed.set(next.name, await kill(next))
    }
  }
  await Promise.all(Array.from({ length: AT_A_TIME }, some))
  await scene.quiet()
}, 300_000)
afterAll(() => scene.close())

/** What happens until the gateway is killed, in this order. */
interface Moment {
  readonly name: string
  /** What becomes of the call; null if nothing is recorded. */
  readonly recorded: object | null
  /** A statement that waits on the way there, or back: then the gateway is killed, and it is lost unless it `arrives`. */
  readonly meets?: readonly [statement: Wanted, place: Place]
  readonly arrives?: true
  /** A call for JSON, not for a stream. */
  readonly as_json?: true
  /** The provider is asked. */
  readonly is_asked?: true
  /** It answers with the headers of a stream, and with these words if there are any. */
  readonly says?: string
  /** The client has these bytes. */
  readonly hears?: string
  /** The ledger knows that so much would be charged; only the next such statement is met. */
  readonly noted?: string
  /** And further words, after that. */
  readonly goes_on?: string
  /** The rest of a stream with its final usage, or a whole JSON answer. */
  readonly ends?: true
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

const moments: readonly Moment[] = [
  { name: "before its hold is asked for", recorded: null, meets: [holdOneKey, "asked"] },
  {
    name: "while its hold is on the way, which then arrives",
    recorded: expired,
    meets: [holdOneKey, "asked"],
    arrives: true,
  },
  { name: "once its hold is made, before it knows", recorded: expired, meets: [holdOneKey, "done"] },
  {
    name: "when the provider was asked for a stream, before its headers",
    recorded: expired,
    is_asked: true,
  },
  { name: "after the headers, before the first output", recorded: expired, says: "", hears: ": ok" },
  {
    name: "in the middle of a stream, before its first checkpoint arrives",
    recorded: expired,
    meets: [CHECKPOINT, "asked"],
    says: "eight by",
    hears: "eight by",
  },
  {
    name: "D13 in the middle of a stream: charged by rule 5 from the last checkpoint, not for what came later",
    recorded: observed,
    says: "eight by",
    noted: "8000",
    meets: [CHECKPOINT, "asked"],
    goes_on: "and more",
  },
  {
    name: "D13 after the final usage, before the settlement is on its way: the last checkpoint",
    recorded: observed,
    says: "eight by",
    noted: "8000",
    meets: [endOne, "asked"],
    ends: true,
  },
  {
    name: "while the settlement is on the way, which then arrives",
    recorded: whole,
    meets: [endOne, "asked"],
    arrives: true,
    says: "eight by",
    ends: true,
  },
  {
    name: "once it is settled, before it knows",
    recorded: whole,
    meets: [endOne, "done"],
    says: "eight by",
    ends: true,
  },
  { name: "when the provider was asked for JSON", recorded: expired, as_json: true, is_asked: true },
  {
    name: "with the whole JSON answer, before the settlement is on its way",
    recorded: expired,
    as_json: true,
    meets: [endOne, "asked"],
    ends: true,
  },
  {
    name: "once a JSON answer is settled, before it leaves",
    recorded: whole,
    as_json: true,
    meets: [endOne, "done"],
    ends: true,
  },
]

const answer = json(200, chatCompletion("hello there", { usage: usage(10, 5) }))

function exchangeOf(body: string): PromiseWithResolvers<Exchange> {
  const name = moments.find((moment) => body.includes(moment.name))?.name ?? body
  const asked = requests.get(name) ?? Promise.withResolvers<Exchange>()
  requests.set(name, asked)
  return asked
}

/** Each call has a gateway, an account and a prompt of its own, so that several can be killed at a time. */
async function kill(moment: Moment): Promise<Killed> {
  const { id, key } = await scene.steady.account("1")
  const victim = await scene.victim(() => EARLY_COMMENTS)
  const client = await rawClient(victim)
  const refused = client.receives("HTTP/1.1 503").then(() => null)
  const reached = await Promise.race([reach(moment, victim, client, { id, key }), refused])
  if (reached === null) {
    // The gateway had to wait 2 s for the database on a busy machine.
    await victim.kill()
    return kill(moment)
  }
  const { statement, ended_ms } = reached
  const gone = victim.kill()
  // Now, because nothing can be held under a lease that has lapsed, and a gateway may take long to be gone.
  if (moment.arrives) statement?.pass()
  else statement?.lose()
  await gone
  const outlived_ms = performance.now() - ended_ms
  await client.closed
  return { account_id: id, received: client.received, outlived_ms }
}

/** Begins the call, and lets it come to the moment. `ended_ms`: when the provider's answer ended, if it did. */
async function reach(
  moment: Moment,
  victim: Victim,
  client: RawClient,
  { id, key }: { readonly id: string; readonly key: string },
) {
  const { name, meets, as_json = false, says, hears, noted, goes_on } = moment
  const asked = exchangeOf(name).promise
  const meet = () => (meets === undefined ? null : victim.database.meet(...meets))
  const met_early = noted === undefined ? meet() : null
  client.send(chatRequest(key, { stream: !as_json, messages: [{ role: "user", content: name }] }))
  if (moment.is_asked) await asked
  if (says !== undefined) await (await asked).head(200, { "content-type": "text/event-stream" })
  if (says) await (await asked).chunk(text(says))
  if (hears !== undefined) await client.receives(hears)
  if (noted !== undefined) await untilIs(() => scene.witness.checkpoint(id), noted)
  const met = met_early ?? meet()
  if (goes_on !== undefined) {
    await (await asked).chunk(text(goes_on))
    await client.receives(goes_on)
  }
  let ended_ms = Number.POSITIVE_INFINITY
  if (moment.ends) {
    const exchange = await asked
    ended_ms = performance.now()
    if (as_json) await answer(exchange)
    else
      await exchange.chunk(`${sseEvent(usageChunk(usage(10, 5)))}data: [DONE]

`)
  }
  return { statement: await met, ended_ms }
}

describe("a gateway that is killed", () => {
  test.each(moments)("$name", async ({ name, recorded }) => {
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

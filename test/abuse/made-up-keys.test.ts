import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { makeKey } from "../../src/admission/key.ts"
import { chatDraft, countDraft, type Harness, openHarness } from "../http/harness.ts"
import { untilIs } from "../support/gateway.ts"
import { type RawClient, rawClient } from "../support/raw-client.ts"
import { type Draft, requestBytes } from "../support/request.ts"

const FLOOD = 60
/** Of a large body: more than the runtime reads of one that nobody reads. */
const SENT = new Uint8Array(2_097_152).fill(32)
const TWO_MB = "content-length: 2000000"
/** An honest prompt that is refused by nothing but a limit for large bodies. */
const HONEST = { messages: [{ role: "user", content: "x".repeat(1_500_000) }] }

let harness: Harness
const clients: RawClient[] = []
afterEach(() => {
  for (const client of clients.splice(0)) client.leave()
})

/** A gateway for the tests beside: what came of large bodies in the tests before still counts there for a second. */
function hasGateway(): void {
  beforeAll(async () => {
    harness = await openHarness()
  })
  afterAll(() => harness.close())
}

/** The head of a request, whose body comes later or never. */
function headOf({ headers = [], target = "/" }: Draft, length: string): Uint8Array {
  return requestBytes({ method: "POST", target, headers: [...headers, length] })
}

/** The status of a request that announces a large body and sends of it what is given. */
async function statusOf(draft: Draft, length: string, sent?: Uint8Array, connected?: RawClient) {
  const client = connected ?? (await rawClient(harness.gateway))
  clients.push(client)
  client.send(headOf(draft, length))
  if (sent !== undefined) client.send(sent)
  return (await client.answered(() => true)).status
}

/** The requests come at once, so that more of them wait than have a place, however slow the machine is. */
async function flood(draft: (key: string) => Draft): Promise<number[]> {
  const connected = await Promise.all(Array.from({ length: FLOOD }, () => rawClient(harness.gateway)))
  const one = (client: RawClient) =>
    statusOf(draft(makeKey()), "content-length: 20971520", SENT, client).catch(() => 0)
  return Promise.all(connected.map(one))
}

/** Several clients that send such requests one after the other, `count` in all. */
async function inTurns(count: number, one: () => Promise<unknown>): Promise<void> {
  let left = count
  const client = async () => {
    while (left-- > 0) await one()
  }
  await Promise.all(Array.from({ length: 4 }, client))
}

describe("D77 a flood of large bodies with made-up keys", () => {
  hasGateway()
  test.each([
    ["calls", chatDraft],
    ["token counts", countDraft],
  ])("of %s: some are looked up, the others are refused immediately", async (_, draft) => {
    const [{ key }, next] = [await harness.account(), await harness.account()]
    const flooding = flood(draft)
    // The gateway has not seen this key. A body of up to 1 MiB needs no place.
    expect((await harness.chat(key)).status).toBe(200)
    const content = "x".repeat(200_000)
    expect((await harness.chat(key, { messages: [{ role: "user", content }] })).status).toBe(200)
    const statuses = await flooding
    expect(statuses).toContain(401)
    expect(statuses).toContain(503)
    await untilIs(() => harness.chat(next.key, HONEST), { status: 200 })
  })
})

describe("D77 a new key with a body over 1 MiB is served, whatever comes from its address:", () => {
  hasGateway()
  /** Made before, because what counts for a second is over when an account is made. */
  let honest: { key: string }[]
  beforeEach(async () => {
    honest = await Promise.all(Array.from({ length: 6 }, () => harness.account()))
  })
  const served = async () => {
    const key = honest.pop()?.key ?? ""
    expect((await harness.chat(key, HONEST)).status).toBe(200)
  }

  test("heads of large bodies with made-up keys", async () => {
    const calls = async () => {
      for (let call = 0; call < 5; call++) await served()
    }
    await Promise.all([inTurns(200, () => statusOf(chatDraft(makeKey()), TWO_MB)), calls()])
    await served()
  })

  const unusable = [
    ["revoked", (key_id: string) => harness.gateway.admin("DELETE", `/keys/${key_id}`)],
  ] as const
  test.each(unusable)("large bodies of a key that is %s", async (_, end) => {
    const { key, key_id } = await harness.account()
    await end(key_id)
    await inTurns(FLOOD, () => statusOf(chatDraft(key), "content-length: 20971520", SENT).catch(() => 0))
    await served()
  })

  test("endless bodies without a length of a key that is remembered, with a header that is refused", async () => {
    const { key } = await harness.account()
    expect((await harness.chat(key)).status).toBe(200)
    const draft = { ...chatDraft(key), headers: [`authorization: Bearer ${key}`, "content-type: text/plain"] }
    const statuses: number[] = []
    await inTurns(FLOOD, async () => {
      statuses.push(await statusOf(draft, "transfer-encoding: chunked"))
    })
    expect(new Set(statuses)).toEqual(new Set([415]))
    await served()
  })
})

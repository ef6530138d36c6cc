import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { makeKey } from "../../src/admission/key.ts"
import { type } from "../cli/command.ts"
import { expectError } from "../http/errors.ts"
import { chatDraft, countDraft, type Harness, openHarness } from "../http/harness.ts"
import type { Answer } from "../support/answer.ts"
import { ADMIN_TOKEN, untilIs } from "../support/gateway.ts"
import {
  chatWords,
  type Exchange,
  HELLO,
  heldBack,
  json,
  sseEvent,
  usage,
  usageChunk,
} from "../support/provider.ts"
import { requestBytes } from "../support/request.ts"

/** A provider that answers when the test says so. */
function gate(harness: Harness) {
  const { held, release } = heldBack((exchange) =>
    (exchange.request.path.endsWith("/count_tokens") ? json(200, { input_tokens: 7 }) : HELLO)(exchange),
  )
  harness.provider.reply(held)
  return release
}

function tally(answers: readonly Answer[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

/** Waits until nothing is held for an account: the places of its calls are free again. */
async function rest(harness: Harness, account_id: string): Promise<void> {
  await untilIs(() => harness.gateway.balance(account_id), { held: "0" })
}

/** The answer of a refusal for want of a place. */
const soon = { headers: { "retry-after": "1" } }

describe("D38 limits.per_key.in_flight", () => {
  const OF_A_KEY = 4
  const OTHERS = 8
  let harness: Harness
  let hog: { id: string; key: string }
  beforeAll(async () => {
    harness = await openHarness({
      limits: { in_flight: OF_A_KEY + OTHERS, per_key: { in_flight: OF_A_KEY } },
    })
    hog = await harness.account()
  })
  afterAll(() => harness.close())

  test("a key with four fifths of the load starves nobody: each of the others gets its answer", async () => {
    const others = await Promise.all(Array.from({ length: OTHERS }, () => harness.account()))
    for (let round = 0; round < 3; round++) {
      const asked = harness.provider.requests.length
      const release = gate(harness)
      const answered: Answer[] = []
      const greedy = Array.from({ length: 4 * OTHERS }, async () => {
        answered.push(await harness.chat(hog.key))
      })
      await untilIs(() => answered.length, 4 * OTHERS - OF_A_KEY)
      const modest = others.map(({ key }) => harness.chat(key))
      await harness.provider.exchange(asked + OF_A_KEY + OTHERS)
      release()
      expect(tally(await Promise.all(modest))).toEqual({ 200: OTHERS })
      await Promise.all(greedy)
      expect(tally(answered)).toEqual({ 200: OF_A_KEY, 429: 4 * OTHERS - OF_A_KEY })
      for (const answer of answered) if (answer.status === 429) expectError(answer, "rate_limited", soon)
      expect(harness.provider.requests).toHaveLength(asked + OF_A_KEY + OTHERS)
      for (const { id } of [hog, ...others]) await rest(harness, id)
    }
  })

  test("what is refused has no hold and costs no look at its body; what runs goes on", async () => {
    const started: PromiseWithResolvers<Exchange>[] = []
    harness.provider.reply(async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(chatWords("one").map(sseEvent).join(""))
      started.shift()?.resolve(exchange)
    })
    const waits = Array.from({ length: OF_A_KEY }, () => Promise.withResolvers<Exchange>())
    started.push(...waits)
    const streams = waits.map(() => harness.chat(hog.key, { stream: true }))
    const exchanges = await Promise.all(waits.map(({ promise }) => promise))
    await harness.untouched(hog.id, async () => {
      expectError(await harness.chat(hog.key), "rate_limited", soon)
      expectError(await harness.chat(hog.key, { messages: [] }), "rate_limited", soon)
      expectError(await harness.count(hog.key), "rate_limited", soon)
      const [head = ""] = requestBytes(chatDraft(hog.key)).toString().split("\r\n\r\n")
      expectError(await harness.say(`${head}\r\n\r\n`, "POST"), "rate_limited", soon)
      const listed = await harness.ask({ target: "/models", headers: [`authorization: Bearer ${hog.key}`] })
      expect(listed.status).toBe(200)
    })
    for (const exchange of exchanges) {
      await exchange.chunk(`${sseEvent(usageChunk(usage(10, 5)))}data: [DONE]\n\n`)
      await exchange.end()
    }
    for (const { body } of await Promise.all(streams)) expect(body).toEndWith("data: [DONE]\n\n")
    await rest(harness, hog.id)
  })

  test("token counts take places too, and give them back", async () => {
    const asked = harness.provider.requests.length
    const release = gate(harness)
    const counts = Array.from({ length: OF_A_KEY }, () => harness.count(hog.key))
    await harness.provider.exchange(asked + OF_A_KEY)
    expectError(await harness.chat(hog.key), "rate_limited", soon)
    release()
    expect(tally(await Promise.all(counts))).toEqual({ 200: OF_A_KEY })
    expect((await harness.chat(hog.key)).status).toBe(200)
  })

  test("no fault, no refusal and no client that leaves keeps a place", async () => {
    const poor = await harness.account("0")
    harness.provider.reply(HELLO)
    for (let round = 0; round <= OF_A_KEY; round++) {
      const key = makeKey()
      expectError(await harness.chat(key), "invalid_api_key")
      expect((await harness.chat(poor.key)).status).toBe(402)
      expectError(await harness.chat(hog.key, { messages: [] }), "invalid_request", { param: "messages" })
      expectError(await harness.chat(hog.key, { model: "none" }), "model_not_found", { param: "model" })
      expectError(await harness.count(hog.key, { model: "none" }), "model_not_found", { param: "model" })
      harness.provider.replyOnce(json(400, { error: { message: "No." } }))
      expectError(await harness.chat(hog.key), "invalid_request")
      harness.provider.replyOnce(json(200, { input_tokens: "7" }))
      expectError(await harness.count(hog.key), "upstream_error")
      for (const draft of [chatDraft(hog.key, { stream: true }), countDraft(hog.key)]) {
        harness.provider.replyOnce(async ({ closed }) => void (await closed))
        const number = harness.provider.requests.length + 1
        const line = harness.dial()
        line.send(requestBytes(draft))
        const exchange = await harness.provider.exchange(number)
        line.leave()
        await exchange.closed
      }
      await rest(harness, hog.id)
    }
    const answers = await Promise.all(Array.from({ length: OF_A_KEY }, () => harness.chat(hog.key)))
    expect(tally(answers)).toEqual({ 200: OF_A_KEY })
  })
})

describe("D38 limits.per_key.requests_per_minute", () => {
  const A_MINUTE = 3
  let harness: Harness
  beforeAll(async () => {
    harness = await openHarness({ limits: { per_key: { requests_per_minute: A_MINUTE } } })
  })
  afterAll(() => harness.close())

  /** A wait that is worth saying: at most the time in which one request flows off. */
  const later = { headers: { "retry-after": expect.stringMatching(/^(1?\d|20)$/) } }
  /** A call is told what is left as well (D85). */
  const none_left = {
    headers: {
      ...later.headers,
      "x-ratelimit-limit-requests": String(A_MINUTE),
      "x-ratelimit-remaining-requests": "0",
      "x-ratelimit-reset-requests": expect.stringMatching(/^\d\ds$/),
    },
  }
  const list = (key: string) => harness.ask({ target: "/models", headers: [`authorization: Bearer ${key}`] })

  test("D85 answers say what is left, in the words of each family", async () => {
    const { key } = await harness.account()
    const first = await harness.chat(key)
    expect(first.headers).toMatchObject({
      "x-ratelimit-limit-requests": String(A_MINUTE),
      "x-ratelimit-remaining-requests": "2",
      "x-ratelimit-reset-requests": expect.stringMatching(/^(1?\d|20)s$/),
    })
    const asked_ms = Date.now()
    const second = await harness.count(key)
    expect(second.headers).toMatchObject({
      "anthropic-ratelimit-requests-limit": String(A_MINUTE),
      "anthropic-ratelimit-requests-remaining": "1",
    })
    const reset_ms = Date.parse(second.headers["anthropic-ratelimit-requests-reset"] ?? "")
    expect(reset_ms).toBeGreaterThan(asked_ms + 20_000)
    expect(reset_ms).toBeLessThanOrEqual(Date.now() + 40_000)
    expect((await harness.chat(key, { stream: true })).headers).toHaveProperty("x-ratelimit-limit-requests")
    expectError(await harness.chat(key), "rate_limited", none_left)
  })

  test("calls, counts and lists are counted alike; beyond the limit each is refused before any hold", async () => {
    const { id, key } = await harness.account()
    const answers = [await harness.chat(key), await harness.count(key), await list(key)]
    expect(tally(answers)).toEqual({ 200: A_MINUTE })
    await harness.untouched(id, async () => {
      expectError(await harness.chat(key), "rate_limited", none_left)
      expectError(await harness.chat(key, { model: "none" }), "rate_limited", none_left)
      expectError(await harness.count(key), "rate_limited", later)
      expectError(await list(key), "rate_limited", later)
      const [head = ""] = requestBytes(chatDraft(key)).toString().split("\r\n\r\n")
      expectError(await harness.say(`${head}\r\n\r\n`, "POST"), "rate_limited", none_left)
    })
    const { key: other } = await harness.key(id, {})
    expect((await harness.chat(other)).status).toBe(200)
  })

  test("of many at once exactly as many as the limit says are let in", async () => {
    const { key } = await harness.account()
    const answers = await Promise.all(Array.from({ length: 5 * A_MINUTE }, () => harness.chat(key)))
    expect(tally(answers)).toEqual({ 200: A_MINUTE, 429: 4 * A_MINUTE })
  })

  test("a key that nobody has is a 401, however often it comes", async () => {
    const key = makeKey()
    for (let request = 0; request < 2 * A_MINUTE; request++) {
      expectError(await harness.chat(key), "invalid_api_key")
      expectError(await list(key), "invalid_api_key")
    }
  })

  test("a reload changes the limit for the very next request", async () => {
    const { key } = await harness.account()
    for (let request = 0; request < A_MINUTE; request++) expect((await list(key)).status).toBe(200)
    expectError(await list(key), "rate_limited", later)
    await harness.gateway.reload({})
    expect((await list(key)).status).toBe(200)
    await harness.gateway.reload({ limits: { per_key: { requests_per_minute: A_MINUTE } } })
    expectError(await list(key), "rate_limited", later)
  })

  test("D104 a rotation gives no limit twice, neither to the new secret nor to the one before", async () => {
    const { key, key_id } = await harness.account()
    for (let call = 0; call < A_MINUTE; call++) expect((await harness.chat(key)).status).toBe(200)
    const body = { keep_hours: 1 }
    const rotated = await harness.gateway.admin<{ key: string }>("POST", `/keys/${key_id}/rotate`, body)
    for (const secret of [rotated.key, key]) {
      expect((await harness.chat(secret)).status).toBe(429)
      expectError(await list(secret), "rate_limited", later)
    }
  })
})

describe("D91 limits.per_key.abandoned_per_minute", () => {
  const A_MINUTE = 2
  let harness: Harness
  beforeAll(async () => {
    harness = await openHarness({
      limits: { per_key: { abandoned_per_minute: A_MINUTE } },
      stream: { leave_wait: "1ms" },
    })
  })
  afterAll(() => harness.close())

  /** A stream whose client leaves when the provider has it, and has answered this much. */
  async function leave(account: { id: string; key: string }, events: string | null): Promise<void> {
    const begun = Promise.withResolvers<void>()
    harness.provider.replyOnce(async (exchange) => {
      if (events !== null) await exchange.head(200, { "content-type": "text/event-stream" })
      if (events !== null && events !== "") await exchange.chunk(events)
      begun.resolve()
      await exchange.closed
    })
    const line = harness.dial()
    line.send(requestBytes(chatDraft(account.key, { stream: true })))
    await begun.promise
    if (events !== null) await line.receives("\r\n\r\n")
    if (events?.includes("content")) await line.receives("content")
    line.leave()
    await rest(harness, account.id)
  }

  const words = chatWords("one").map(sseEvent).join("")
  const later = { headers: { "retry-after": expect.stringMatching(/^(30|29|2[0-8])$/) } }

  test("calls that are left before output are counted, and bounded before a hold", async () => {
    const account = await harness.account()
    await leave(account, words)
    await leave(account, null)
    expect((await harness.chat(account.key)).status).toBe(200)
    await leave(account, "")
    const asked = harness.provider.requests.length
    await harness.untouched(account.id, async () => {
      expectError(await harness.chat(account.key), "rate_limited", later)
      const [head = ""] = requestBytes(chatDraft(account.key)).toString().split("\r\n\r\n")
      expectError(await harness.say(`${head}\r\n\r\n`, "POST"), "rate_limited", later)
    })
    expect(harness.provider.requests).toHaveLength(asked)
    expect((await harness.count(account.key)).status).toBe(200)
    const { key } = await harness.key(account.id, {})
    expect((await harness.chat(key)).status).toBe(200)

    const exposition = await harness.gateway.metrics()
    expect(exposition).toMatch(/tollgate_calls_released_total\{[^}]*failure="client_left"\} 2\n/)
    expect(exposition).toContain('tollgate_key_limit_refusals_total{limit="abandoned_per_minute"} 2\n')
    const report = await harness.gateway.admin("GET", `/usage?account=${account.id}&by=key`)
    expect(report).toMatchObject({
      data: [
        { calls: 4, abandoned: 2 },
        { calls: 1, abandoned: 0 },
      ],
    })
    const env = { TOLLGATE_URL: harness.gateway.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN }
    const { out } = await type(["usage", "--by", "key", "--account", account.id], env)
    expect(out).toMatch(/^KEY +NAME +CALLS +ABANDONED /)
    expect(out).toMatch(/\ntotal +5 +2 /)
  })

  test("without the limit they are only counted", async () => {
    await harness.gateway.reload({ stream: { leave_wait: "1ms" } })
    const account = await harness.account()
    for (let call = 0; call <= A_MINUTE; call++) await leave(account, "")
    expect((await harness.chat(account.key)).status).toBe(200)
  })
})

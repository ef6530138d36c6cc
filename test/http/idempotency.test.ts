import { afterAll, describe, expect, test } from "bun:test"
import { chat, EARLY_COMMENTS, startGateway, type TestGateway, until, untilIs } from "../support/gateway.ts"
import {
  chatCompletion,
  chatWords,
  heldBack,
  json,
  type Script,
  sse,
  startProvider,
  usage,
} from "../support/provider.ts"

/** D43: an `Idempotency-Key` as clients meet it, also at a gateway that keeps answers. */

const provider = await startProvider()
const gateway = await startGateway(provider, EARLY_COMMENTS)
const keeping = await startGateway(provider, { idempotency: { keep_answers: "1h" } })
afterAll(async () => {
  for (const harness of [gateway, keeping]) {
    expect((await harness.audit()).violations).toEqual([])
    await harness.stop()
  }
  await provider.stop()
})

const ANSWER = chatCompletion("hello there", { usage: usage(10, 5) })
const body = { messages: [{ role: "user", content: "pay once" }] }

function call(
  harness: TestGateway,
  key: string,
  idempotency_key: string,
  changes: object = {},
  init: { readonly signal?: AbortSignal } = {},
) {
  const headers = { "idempotency-key": idempotency_key }
  return chat(harness, key, { ...body, ...changes }, { headers, ...init })
}

async function errorOf(answer: Response): Promise<{ code: string; call: string }> {
  return JSON.parse(await answer.text()).error
}

describe("D43 a call with an Idempotency-Key", () => {
  test("is made and charged once; the repeat is a 400 that names it, and its receipt tells the outcome", async () => {
    const { id, key } = await gateway.account("1")
    const sent = provider.requests.length
    provider.replyOnce(json(200, ANSWER))
    const first = await call(gateway, key, "order-1")
    expect(first.status).toBe(200)
    await first.json()
    const charged = await gateway.balance(id)
    for (let again = 0; again < 3; again++) {
      const repeat = await call(gateway, key, "order-1")
      expect([repeat.status, repeat.headers.get("x-should-retry")]).toEqual([400, "false"])
      const error = await errorOf(repeat)
      expect(error).toMatchObject({ code: "idempotency_key_used", call: first.headers.get("x-request-id") })
      expect(await gateway.call(error.call)).toMatchObject({ state: "settled", charge: "0.00003" })
    }
    expect(await gateway.balance(id)).toEqual(charged)
    expect(provider.requests.length).toBe(sent + 1)
    expect(Bun.inspect(provider.requests.at(-1)?.headers).toLowerCase()).not.toContain("idempotency")
    expect(gateway.lines.join("\n")).not.toContain("order-1")
  })

  test("is refused with another body, model or stream", async () => {
    const { key } = await gateway.account("1")
    provider.replyOnce(json(200, ANSWER))
    await (await call(gateway, key, "order-2")).json()
    for (const changes of [
      { n: 2 },
      { stream: true },
      { messages: [{ role: "user", content: "pay twice" }] },
    ]) {
      const repeat = await call(gateway, key, "order-2", changes)
      expect([repeat.status, (await errorOf(repeat)).code]).toEqual([400, "idempotency_key_reused"])
    }
  })

  test("is told of while the first still streams, and afterwards; the stream is harmed by neither", async () => {
    const { key } = await gateway.account("1")
    const go = Promise.withResolvers<void>()
    provider.replyOnce(async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(`data: ${JSON.stringify(chatWords("one")[0])}\n\n`)
      await go.promise
      await sse(chatWords("two"), { usage: usage(10, 5) })({ ...exchange, head: async () => true })
    })
    const first = await call(gateway, key, "order-3", { stream: true })
    const reader = first.body?.getReader()
    await reader?.read()
    const during = await call(gateway, key, "order-3", { stream: true })
    expect(await errorOf(during)).toMatchObject({
      code: "idempotency_key_used",
      call: first.headers.get("x-request-id"),
    })
    go.resolve()
    while (!(await reader?.read())?.done);
    const after = await call(gateway, key, "order-3", { stream: true })
    expect((await errorOf(after)).code).toBe("idempotency_key_used")
    expect(await gateway.callOf(first)).toMatchObject({ state: "settled" })
  })

  test("of fifty at once is one reservation and one request to the provider", async () => {
    const { id, key } = await gateway.account("1")
    const sent = provider.requests.length
    provider.reply(json(200, ANSWER))
    const answers = await Promise.all(Array.from({ length: 50 }, () => call(gateway, key, "order-4")))
    const statuses = answers.map(({ status }) => status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(1)
    expect(statuses.filter((status) => status === 400)).toHaveLength(49)
    expect(provider.requests.length).toBe(sent + 1)
    expect(await gateway.calls(`?account=${id}`)).toHaveLength(1)
  })

  test.each<[string, Script, number]>([
    ["429", json(429, {}, { "retry-after": "1" }), 429],
    ["500", json(500, {}), 502],
    ["no answer", (exchange) => exchange.reset(), 502],
  ])(
    "that got no 2xx from a provider (%s) gives its key back: the repeat is a call of its own",
    async (_, script, status) => {
      const { id, key } = await gateway.account("1")
      for (const stream of [false, true]) {
        const idempotency_key = `order-5-${stream}`
        const sent = provider.requests.length
        provider.replyOnce(script)
        const first = await call(gateway, key, idempotency_key, { stream })
        await first.text()
        expect(first.status).toBe(status)
        provider.replyOnce(json(200, ANSWER))
        const second = await call(gateway, key, idempotency_key, { stream })
        await second.text()
        expect(second.status).toBe(200)
        expect(provider.requests.length).toBe(sent + 2)
        expect(await gateway.callOf(first)).toMatchObject({ state: "released", charge: "0" })
        expect(await gateway.callOf(second)).toMatchObject({ state: "settled", charge: "0.00003" })
        const third = await call(gateway, key, idempotency_key, { stream })
        expect(await errorOf(third)).toMatchObject({
          code: "idempotency_key_used",
          call: second.headers.get("x-request-id"),
        })
      }
      expect(await gateway.calls(`?account=${id}`)).toHaveLength(4)
    },
  )

  test("that was refused takes no key: a 402 may be repeated after a top-up", async () => {
    const { id, key } = await gateway.account("0")
    expect((await call(gateway, key, "order-6")).status).toBe(402)
    await gateway.admin("POST", `/accounts/${id}/credits`, { amount: "1" })
    provider.replyOnce(json(200, ANSWER))
    expect((await call(gateway, key, "order-6")).status).toBe(200)
  })

  test.each([
    ["empty", ""],
    ["256 characters", "x".repeat(256)],
    ["not ASCII", "caf\u00e9"],
  ])("is refused with a key that is none: %s", async (_, idempotency_key) => {
    const { key } = await gateway.account("1")
    const answer = await call(gateway, key, idempotency_key)
    expect([answer.status, await errorOf(answer)]).toMatchObject([
      400,
      { code: "invalid_request", param: "Idempotency-Key" },
    ])
  })
})

describe("D43 with keep_answers", () => {
  test("a JSON answer is told again, byte for byte, under its call's id, and nothing more is charged", async () => {
    const { id, key } = await keeping.account("1")
    const sent = provider.requests.length
    provider.replyOnce(json(200, ANSWER))
    const first = await call(keeping, key, "order-7", { usage: { include: true } })
    const text = await first.text()
    const charged = await keeping.balance(id)
    const repeat = await call(keeping, key, "order-7", { usage: { include: true } })
    expect([repeat.status, repeat.headers.get("idempotent-replayed"), await repeat.text()]).toEqual([
      200,
      "true",
      text,
    ])
    expect(first.headers.get("idempotent-replayed")).toBeNull()
    expect(repeat.headers.get("x-request-id")).toBe(first.headers.get("x-request-id"))
    expect(await keeping.balance(id)).toEqual(charged)
    expect(provider.requests.length).toBe(sent + 1)
  })

  test("no other account, and no other body, gets to see it", async () => {
    const [one, two] = [await keeping.account("1"), await keeping.account("1")]
    provider.replyOnce(json(200, ANSWER))
    await (await call(keeping, one.key, "order-8")).json()
    expect((await errorOf(await call(keeping, one.key, "order-8", { n: 2 }))).code).toBe(
      "idempotency_key_reused",
    )
    provider.replyOnce(json(200, chatCompletion("for another", { usage: usage(1, 1) })))
    expect(await (await call(keeping, two.key, "order-8")).text()).toContain("for another")
  })

  test("a client that left before its answer gets it when it asks again", async () => {
    const { key } = await keeping.account("1")
    const go = heldBack(json(200, ANSWER))
    provider.replyOnce(go.held)
    const left = new AbortController()
    const sent = provider.requests.length
    const first = call(keeping, key, "order-9", {}, { signal: left.signal }).catch(() => null)
    await until(
      () => provider.requests.length,
      (count) => count > sent,
    )
    expect((await errorOf(await call(keeping, key, "order-9"))).code).toBe("idempotency_key_used")
    left.abort()
    await first
    go.release()
    const repeat = await untilIs(() => call(keeping, key, "order-9"), { status: 200 })
    expect(await repeat.json()).toMatchObject(ANSWER)
  })

  test("a stream, a failure and an answer of more than 1 MiB are not kept", async () => {
    const { key } = await keeping.account("1")
    const rows = [
      ["order-10", sse(chatWords("one"), { usage: usage(10, 5) }), { stream: true }],
      ["order-11", json(200, "{"), {}],
      ["order-12", json(200, chatCompletion("x".repeat(1 << 20), { usage: usage(10, 5) })), {}],
    ] as const
    for (const [idempotency_key, script, changes] of rows) {
      provider.replyOnce(script)
      await (await call(keeping, key, idempotency_key, changes)).text()
      const repeat = await call(keeping, key, idempotency_key, changes)
      expect([repeat.status, (await errorOf(repeat)).code]).toEqual([400, "idempotency_key_used"])
    }
  })
})

import { describe, expect, test } from "bun:test"
import { makeKey } from "../../src/admission/key.ts"
import { expectError } from "../http/errors.ts"
import { CANARY, chatDraft, countDraft, testHarness } from "../http/harness.ts"
import type { Answer } from "../support/answer.ts"
import { rawClient } from "../support/raw-client.ts"
import { type Draft, requestBytes } from "../support/request.ts"

const A_MINUTE = 6
const harness = await testHarness({ limits: { in_flight: 1, per_key: { requests_per_minute: A_MINUTE } } })

/** The head of a request, whose body never comes. */
function headOf(draft: Draft): string {
  return `${requestBytes(draft).toString().split("\r\n\r\n", 1)[0]}\r\n\r\n`
}

/** The answers to the heads of a call, and of a token count where the key may not count either. */
async function saidToHeads(key: string): Promise<Answer[]> {
  return [
    await harness.say(headOf(chatDraft(key)), "POST"),
    await harness.say(headOf(countDraft(key)), "POST"),
  ]
}

describe("D30 the key is judged by the headers, before the body comes", () => {
  test("a key that nobody has", async () => {
    for (const answer of await saidToHeads(makeKey())) expectError(answer, "invalid_api_key")
  })

  test("a quote of a key that nobody has", async () => {
    const draft = { ...chatDraft(makeKey()), target: "/v1/quote" }
    expectError(await harness.say(headOf(draft), "POST"), "invalid_api_key")
  })

  const states = [
    {
      name: "revoked",
      code: "invalid_api_key",
      end: (_: string, key_id: string) => harness.gateway.admin("DELETE", `/keys/${key_id}`),
    },
    {
      name: "suspended",
      code: "key_suspended",
      end: (_: string, key_id: string) =>
        harness.gateway.admin("PATCH", `/keys/${key_id}`, { suspended: true }),
    },
    {
      name: "of a suspended account",
      code: "account_suspended",
      end: (id: string) => harness.gateway.admin("PATCH", `/accounts/${id}`, { suspended: true }),
    },
  ] as const
  test.each(states)("a key that is $name since its last call", async ({ code, end }) => {
    const { id, key, key_id } = await harness.account()
    expect((await harness.chat(key)).status).toBe(200)
    await end(id, key_id)
    // The gateway remembers whose key it is, so the body of the next request is read; its faults come after the key.
    expectError(await harness.chat(key, { messages: CANARY }), code)
    for (const answer of await saidToHeads(key)) expectError(answer, code)
  })

  test("D26 a call that is refused by its hold: the next request is refused by its headers", async () => {
    const { id, key, key_id } = await harness.account()
    expect((await harness.chat(key)).status).toBe(200)
    await harness.gateway.admin("PATCH", `/keys/${key_id}`, { suspended: true })
    expectError(await harness.chat(key), "key_suspended")
    for (const answer of await saidToHeads(key)) expectError(answer, "key_suspended")
    await harness.gateway.admin("PATCH", `/keys/${key_id}`, { suspended: false })
    expect((await harness.chat(key)).status).toBe(200)
    expect((await harness.gateway.balance(id)).held).toBe("0")
  })
})

describe("D77 a large body that is refused is not read", () => {
  const LENGTH = 20_971_520
  const refusedHead = (length: string) => {
    const headers = [`authorization: Bearer ${makeKey()}`, "content-type: application/json", length]
    return requestBytes({ method: "POST", target: "/v1/chat/completions", headers })
  }

  test.each([`content-length: ${LENGTH}`, "transfer-encoding: chunked"])(
    "%s: the connection is closed",
    async (length) => {
      const client = await rawClient(harness.gateway)
      client.send(refusedHead(length))
      const answer = await client.answer("POST")
      expectError(answer, "invalid_api_key")
      expect(answer.headers.connection).toBe("close")
      expect(await client.over).toBe("")
    },
  )

  test("a chunked body that comes whole within 100 ms is read, and the connection stays open", async () => {
    const client = await rawClient(harness.gateway)
    client.send(refusedHead("transfer-encoding: chunked"))
    client.send("2\r\n{}\r\n0\r\n\r\n")
    const answer = await client.answer("POST")
    expectError(answer, "invalid_api_key")
    expect(answer.headers.connection).toBeUndefined()
    client.send(requestBytes({ target: "/livez" }))
    expect((await client.answer()).status).toBe(200)
    client.leave()
  })

  test("a body of up to 1 MiB is read, and the connection stays open", async () => {
    const client = await rawClient(harness.gateway)
    client.send(refusedHead("content-length: 1000000"))
    const answer = await client.answer("POST")
    expectError(answer, "invalid_api_key")
    expect(answer.headers.connection).toBeUndefined()
    client.send("x".repeat(1_000_000))
    client.send(requestBytes({ target: "/livez" }))
    expect((await client.answer()).status).toBe(200)
    client.leave()
  })
})

describe("D38 requests count before their bodies are read", () => {
  test("bodies that are not valid count like others", async () => {
    const { key } = await harness.account()
    for (let request = 0; request < A_MINUTE; request++)
      expectError(await harness.chat(key, { messages: [] }), "invalid_request", { param: "messages" })
    for (const answer of await saidToHeads(key))
      expect(answer).toMatchObject({
        status: 429,
        headers: { "retry-after": expect.stringMatching(/^\d+$/) },
        json: { error: { code: "rate_limited" } },
      })
  })

  test("D33 a call whose body is on its way has a place, until it is gone", async () => {
    const { id, key } = await harness.account()
    expect((await harness.chat(key)).status).toBe(200)
    const slow = await rawClient(harness.gateway)
    const [first = "", rest = ""] = requestBytes(chatDraft(key))
      .toString()
      .split(/(?=\r\n\r\n)/)
    slow.send(`${first}${rest.slice(0, 10)}`)
    expectError(await harness.chat(key), "overloaded", { headers: { "retry-after": "1" } })
    slow.send(rest.slice(10))
    expect((await slow.answer("POST")).status).toBe(200)
    slow.leave()
    await harness.gateway.endedCalls(id, 2)
    expect((await harness.chat(key)).status).toBe(200)
  })
})

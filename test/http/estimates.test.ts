import { describe, expect, test } from "bun:test"
import type { EstimatesBody } from "../../src/wire/estimates.ts"
import { type } from "../cli/command.ts"
import { ADMIN_TOKEN, CHAT, chat, configFor, startGateway, type TestGateway } from "../support/gateway.ts"
import { chatCompletion, chatWords, json, sse, usage, usageChunk } from "../support/provider.ts"
import { testPair } from "../support/test-gateway.ts"

/** D92: calls at two gateways of one database, and what the operator is told. */

const TEXT = "Forty-five bytes of text, and then no more..."
/** 9 tokens of text with 5 bytes each, and 30 of reasoning that nobody sees. */
const REASONED = { ...usage(9, 39), completion_tokens_details: { reasoning_tokens: 30 } }

const { provider, gateway: first, other: second, shards } = await testPair()
const key = (await second.account("10")).key

async function call(gateway: TestGateway, body: object = {}): Promise<void> {
  const answer = await chat(gateway, key, body)
  expect(answer.status).toBe(200)
  await answer.bytes()
}

function estimates(query = ""): Promise<EstimatesBody> {
  return second.admin<EstimatesBody>("GET", `/estimates${query}`)
}

describe("D92 estimates beside usage", () => {
  test("two gateways add up what their calls say; calls without usage say nothing", async () => {
    provider.reply(json(200, chatCompletion(TEXT, { usage: REASONED })))
    for (let calls = 0; calls < 19; calls++) await call(first)
    provider.replyOnce(json(200, chatCompletion(TEXT, { usage: undefined })))
    await call(first)
    provider.replyOnce(sse([...chatWords(TEXT), usageChunk(REASONED)]))
    await call(second, { stream: true })
    expect(await estimates()).toEqual({ days: 7, data: [] })

    await first.stop()
    expect((await estimates()).data).toMatchObject([{ model: CHAT, operation: "chat", calls: 19 }])
    const third = await startGateway(provider, {}, null, shards)
    await call(third)
    await third.stop()
    const { data } = await estimates()
    expect(data).toHaveLength(1)
    expect(data[0]).toMatchObject({
      calls: 20,
      output_bytes: 20 * TEXT.length,
      output_tokens: 20 * 39,
      reasoning_tokens: 20 * 30,
      reasoning_calls: 20,
      prompt_bytes: 20 * 35,
      prompt_tokens: 20 * 9,
      seen: { bytes_per_token: 5, hidden_output: 30 },
      configured: { bytes_per_token: 4, hidden_output: 0 },
      error_percent: { output: -71.2 },
      suggestion: "Set bytes_per_token: 5 and estimate: { hidden_output: 30 }.",
    })
  })

  test("settings as suggested estimate what the provider reports", async () => {
    const { models } = configFor(provider.url)
    if (!Array.isArray(models)) throw new Error("the configuration has no models")
    const settings = { bytes_per_token: 5, estimate: { hidden_output: 30 } }
    const fourth = await startGateway(
      provider,
      { models: models.map((model: object) => ({ ...model, ...settings })) },
      null,
      shards,
    )
    await call(fourth)
    await fourth.stop()
    expect((await estimates()).data).toMatchObject([
      {
        calls: 21,
        configured: { bytes_per_token: 5, hidden_output: 30 },
        error_percent: { output: 0 },
        suggestion: null,
      },
    ])
  })

  test("are those of a week, unless more days are asked for", async () => {
    await second.sql`INSERT INTO tollgate.estimates
      SELECT day - 7, 'old', operation, calls, 400, 100, 200, 100, 0, 0, 4, 0 FROM tollgate.estimates`
    expect((await estimates()).data.map(({ model }) => model)).toEqual([CHAT])
    expect((await estimates("?days=8")).data.map(({ model }) => model)).toEqual([CHAT, "old"])
    await second.sql`DELETE FROM tollgate.estimates WHERE model = 'old'`
  })

  test("the command line shows them, from the gateway", async () => {
    const words = ["estimates", "--days", "1", "--model", CHAT]
    const env = { TOLLGATE_URL: second.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN }
    const { code, out, err } = await type(words, env)
    expect({ code, err }).toEqual({ code: 0, err: "" })
    expect(out.split("\n")[1]).toMatch(new RegExp(`^${CHAT} +chat +21 +5 +5 +\\d\\.?\\d* +30 +30 +0 % +`))
    expect((await type(["estimates", "--model", "none"], env)).out).toBe(
      "No calls with usage in this time.\n",
    )
    expect(await type(["estimates", "--days", "31"], env)).toMatchObject({
      code: 1,
      err: expect.stringContaining("an integer from 1 to 30"),
    })
  })
})

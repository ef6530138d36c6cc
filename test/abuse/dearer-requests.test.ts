import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { expectError } from "../http/errors.ts"
import { type Harness, openHarness } from "../http/harness.ts"
import { chatCompletion, json, usage } from "../support/provider.ts"

/** Requests that would make a provider do more than they are held and charged for. */

let harness: Harness
let account: { id: string; key: string }
beforeAll(async () => {
  harness = await openHarness()
  account = await harness.account()
})
afterAll(() => harness.close())

describe("D18 D19 what would be billed differently than it is read is refused", () => {
  const message = { role: "user", content: "hello" }
  test.each([
    ["model", { Model: "dearer" }],
    ["model", { MODEL: "dearer" }],
    ["n", { N: 128 }],
    ["max_tokens", { Max_Tokens: 100_000 }],
    ["messages", { meſſages: [message] }],
    ["stream", { stream: false, STREAM: true }],
    ["stream_options", { stream: true, Stream_Options: { include_usage: false } }],
    ["stream_options.include_usage", { stream: true, stream_options: { Include_Usage: false } }],
    ["messages[1].content", { messages: [message, { ...message, Content: "more" }] }],
    ["service_tier", { Service_Tier: "priority" }],
    ["models", { models: ["dearer"] }],
    ["fallbacks", { fallbacks: [{ model: "dearer" }] }],
    ["provider", { provider: { order: ["dearer"] } }],
  ])("%s: %j", async (param, fields) => {
    await harness.untouched(account.id, async () => {
      expectError(await harness.chat(account.key, fields), "invalid_request", { param })
    })
  })

  test.each([
    ["a field of that name within another", { metadata: { Model: "x", models: [] } }],
    ["an unknown field in capitals", { Custom: true, Kontext: "x" }],
    ["the tiers that have the model's price", { service_tier: "auto", models: null, provider: null }],
  ])("%s passes", async (_, fields) => {
    expect((await harness.chat(account.key, fields)).status).toBe(200)
    expect(harness.provider.requests.at(-1)?.json).toMatchObject(fields)
  })
})

test("D1 D12 a document at an address is charged by the usage it causes", async () => {
  const rich = await harness.account("1")
  harness.provider.replyOnce(json(200, chatCompletion("a summary", { usage: usage(400_000, 2) })))
  const content = [{ type: "document_url", document_url: "https://files.example/a.pdf" }]
  const answer = await harness.chat(rich.key, { messages: [{ role: "user", content }] })
  expect(answer.status).toBe(200)
  expect((await harness.gateway.balance(rich.id)).balance).toBe("0.599992")
})

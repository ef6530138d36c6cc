import { describe, expect, test } from "bun:test"
import { expectError } from "../http/errors.ts"
import { testHarness } from "../http/harness.ts"

/** Requests that would make a provider do more than they are held and charged for. */

const harness = await testHarness()
const account = await harness.account()

describe("D18 D19 what would be billed differently than it is read is refused", () => {
  const message = { role: "user", content: "hello" }
  test.each([
    ["Model", { Model: "dearer" }],
    ["MODEL", { MODEL: "dearer" }],
    ["N", { N: 128 }],
    ["Max_Tokens", { Max_Tokens: 100_000 }],
    ["meſſages", { meſſages: [message] }],
    ["STREAM", { stream: false, STREAM: true }],
    ["Stream_Options", { stream: true, Stream_Options: { include_usage: false } }],
    ["stream_options.Include_Usage", { stream: true, stream_options: { Include_Usage: false } }],
    ["messages[1].Content", { messages: [message, { ...message, Content: "more" }] }],
    ["Service_Tier", { Service_Tier: "priority" }],
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

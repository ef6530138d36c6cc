import { describe, expect, test } from "bun:test"
import Anthropic from "@anthropic-ai/sdk"
import { json } from "../support/provider.ts"
import { failureOf, PROMPT } from "./client.ts"
import { testStage } from "./stage.ts"

/** What only the client of Anthropic has. */

const stage = await testStage(10)

const messages = [{ role: "user" as const, content: PROMPT }]

describe("the official SDK", () => {
  async function open(root = (url: string) => url) {
    const cell = await stage.cell()
    cell.answers(json(200, { input_tokens: 12 }))
    const client = new Anthropic({ baseURL: root(cell.url), apiKey: cell.key })
    return { cell, client, ask: { model: cell.counter, messages } }
  }

  test("D20 D22 its version, its system prompt and its request id pass, its key does not", async () => {
    const { cell, client, ask } = await open()
    const { data, request_id } = await client.messages
      .countTokens({ ...ask, system: "be brief" })
      .withResponse()
    expect(data).toEqual({ input_tokens: 12 })
    expect(Reflect.get(data, "_request_id")).toBe(request_id)
    const { request } = await cell.exchange(1)
    expect(request.headers).toMatchObject({
      "anthropic-version": "2026-10-21",
      "x-request-id": String(request_id),
    })
    expect(request.json).toEqual({ model: "provider-model", messages, system: "be brief" })
    expect(JSON.stringify(request)).not.toContain(cell.key)
  })

  test("D21 it counts on the vendor's path", async () => {
    const { client, ask } = await open((url) => `${url}/anthropic`)
    expect(await client.messages.countTokens(ask)).toMatchObject({ input_tokens: 12 })
  })

  test("D22 it counts by its beta, whose header is forwarded", async () => {
    const { cell, client, ask } = await open()
    const betas = ["context-management-2025-06-27"]
    expect(await client.beta.messages.countTokens({ ...ask, betas })).toMatchObject({ input_tokens: 12 })
    const { "anthropic-beta": beta } = (await cell.exchange(1)).request.headers
    expect(beta).toContain("context-management-2025-06-27")
    expect(beta).toContain("token-counting")
  })

  test("with /v1 too much in its base URL, it is told what there is", async () => {
    const { client, ask } = await open((url) => `${url}/v1`)
    const error = await failureOf(client.messages.countTokens(ask))
    expect(error).toMatchObject({
      status: 404,
      message: expect.stringContaining("/v1/messages/count_tokens"),
    })
  })
})

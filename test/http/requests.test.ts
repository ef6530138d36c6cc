import { describe, expect, test } from "bun:test"
import { CHAT, MESSAGES } from "../support/gateway.ts"
import { jsonDraft } from "../support/request.ts"
import { expectError } from "./errors.ts"
import { CANARY, chatBody, testHarness } from "./harness.ts"

const harness = await testHarness()
const account = await harness.account()

/** A chat request whose body is exactly this. */
function sendText(body: string | Uint8Array) {
  return harness.ask(jsonDraft(account.key, "/v1/chat/completions", body))
}

describe("D15 a field at fault is a 400 that names it, before any hold", () => {
  const rows: readonly [what: string, fields: object, param: string][] = [
    ["a message without a role", { messages: [{ content: CANARY }] }, "messages[0].role"],
    ["D12 n 129", { n: 129 }, "n"],
  ]
  test.each(rows)("%s", async (_, fields, param) => {
    await harness.untouched(account.id, async () => {
      expectError(await harness.chat(account.key, fields), "invalid_request", { param })
    })
  })
})

describe("D15 a body that is no JSON object is a 400 without a field", () => {
  const rows: readonly [what: string, body: string | Uint8Array, message: RegExp][] = [
    ["empty", "", /empty/],
    ["bad UTF-8", Buffer.from(JSON.stringify(chatBody({ user: "\xff" })), "latin1"), /not valid UTF-8/],
    [
      "D18 65 levels",
      JSON.stringify(chatBody({ x: JSON.parse(nested(64)) })),
      /nested more than 64 levels deep/,
    ],
  ]
  test.each(rows)("%s", async (_, body, message) => {
    await harness.untouched(account.id, async () => {
      expectError(await sendText(body), "invalid_request", { message })
    })
  })
})

describe("D18 what the gateway does not read reaches the provider unchanged", () => {
  const deep = JSON.parse(nested(63))
  const rows: readonly [what: string, fields: object][] = [
    ["64 levels", { x: deep }],
    ["4,096 messages", { messages: Array.from({ length: 4096 }, () => ({ role: "u" })) }],
    ["D12 the largest n", { n: 128, max_tokens: 1 }],
    ["D12 null limits", { n: null, max_tokens: null, max_completion_tokens: null, stream: null }],
    ["D12 limits beyond the model's", { max_tokens: 9_007_199_254_740_991, max_completion_tokens: 1 }],
    ["numbers and strings of every kind", { a: [0.1, -1e-7, 1e21, '\u0000\u2028\\"/', true, false, null] }],
  ]
  test.each(rows)("%s", async (_, fields) => {
    expect((await harness.chat(account.key, fields)).status).toBe(200)
    expect(harness.provider.requests.at(-1)?.body).toBe(
      JSON.stringify(chatBody({ ...fields, model: "upstream-model" })),
    )
  })
})

describe("D19 a model's name matches byte for byte", () => {
  const rows: readonly string[] = [
    CHAT.toUpperCase(),
    ` ${CHAT}`,
    `${CHAT} `,
    `${CHAT}\u0000`,
    `${CHAT}\u200b`,
    CHAT.replace("-", "\u2010"),
    `${CHAT}/`,
    "upstream-model",
    "__proto__",
    "constructor",
    CANARY,
  ]
  test.each(rows.map((name) => [name]))("%j is not found", async (model) => {
    await harness.untouched(account.id, async () => {
      expectError(await harness.chat(account.key, { model }), "model_not_found", { param: "model" })
    })
  })

  test("D15 a model of the other entry exists, but is not open for this one", async () => {
    const said = { param: "model", message: /does not support chat.*POST \/v1\/messages/ }
    expectError(await harness.chat(account.key, { model: MESSAGES }), "model_not_allowed", said)
  })
})

/** JSON text that is this many levels deep. */
function nested(levels: number): string {
  return "[".repeat(levels) + "]".repeat(levels)
}

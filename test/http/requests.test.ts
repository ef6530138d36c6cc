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
  const user = { role: "user", content: CANARY }
  const rows: readonly [what: string, fields: object, param: string][] = [
    ["no model", { model: undefined }, "model"],
    ["model null", { model: null }, "model"],
    ["model a number", { model: 5 }, "model"],
    ["model empty", { model: "" }, "model"],
    ["model of 257 characters", { model: CANARY.padEnd(257, "x") }, "model"],
    ["no messages", { messages: undefined }, "messages"],
    ["D15 messages empty", { messages: [] }, "messages"],
    ["messages a string", { messages: CANARY }, "messages"],
    ["messages an object", { messages: { 0: user } }, "messages"],
    ["D18 4,097 messages", { messages: Array.from({ length: 4097 }, () => ({ role: "u" })) }, "messages"],
    ["a message that is a string", { messages: [user, CANARY] }, "messages[1]"],
    ["a message that is null", { messages: [null] }, "messages[0]"],
    ["a message without a role", { messages: [{ content: CANARY }] }, "messages[0].role"],
    ["a role that is a number", { messages: [{ ...user, role: 1 }] }, "messages[0].role"],
    ["a role that is empty", { messages: [{ ...user, role: "" }] }, "messages[0].role"],
    ["stream a string", { stream: "true" }, "stream"],
    ["stream a number", { stream: 1 }, "stream"],
    ["stream_options a string", { stream: true, stream_options: CANARY }, "stream_options"],
    ["D12 n 0", { n: 0 }, "n"],
    ["D12 n 129", { n: 129 }, "n"],
    ["D12 n -1", { n: -1 }, "n"],
    ["D12 n 1.5", { n: 1.5 }, "n"],
    ["D12 n a string", { n: "1" }, "n"],
    ["D12 n true", { n: true }, "n"],
    ["D12 n a list", { n: [1] }, "n"],
  ]
  test.each(rows)("%s", async (_, fields, param) => {
    await harness.untouched(account.id, async () => {
      expectError(await harness.chat(account.key, fields), "invalid_request", { param })
    })
  })

  const limits = ["max_tokens", "max_completion_tokens"]
  const values = ["0", "-1", "1.5", '"5"', "true", "[]", "{}", "1e400", "9007199254740992", "-0"]
  const pairs = limits.flatMap((limit) => values.map((value) => [limit, value] as const))
  test.each(pairs)("D12 %s of %s", async (limit, value) => {
    const text = JSON.stringify(chatBody()).replace(/}$/, `,"${limit}":${value}}`)
    await harness.untouched(account.id, async () => {
      expectError(await sendText(text), "invalid_request", { param: limit })
    })
  })

  test("of several faults in one body the first of the schema is named", async () => {
    expectError(await harness.chat(account.key, { messages: [], n: 0, stream: 1 }), "invalid_request", {
      param: "messages",
    })
  })
})

describe("D15 a body that is no JSON object is a 400 without a field", () => {
  const rows: readonly [what: string, body: string | Uint8Array, message: RegExp][] = [
    ["empty", "", /empty/],
    ["white space", " \n", /not valid JSON/],
    ["an array", `[${JSON.stringify(chatBody())}]`, /not an object/],
    ["null", "null", /not an object/],
    ["a string", `"${CANARY}"`, /not an object/],
    ["cut short", JSON.stringify(chatBody()).slice(0, -1), /not valid JSON/],
    ["two objects", `${JSON.stringify(chatBody())}{}`, /not valid JSON/],
    ["a trailing comma", JSON.stringify(chatBody()).replace(/}$/, ",}"), /not valid JSON/],
    ["a comment", `/* ${CANARY} */${JSON.stringify(chatBody())}`, /not valid JSON/],
    ["NaN", JSON.stringify(chatBody()).replace(/}$/, ',"n":NaN}'), /not valid JSON/],
    ["a form", `model=${CHAT}&messages=${CANARY}`, /not valid JSON/],
    ["bad UTF-8", Buffer.from(JSON.stringify(chatBody({ user: "\xff" })), "latin1"), /not valid UTF-8/],
    ["UTF-16", Buffer.from(JSON.stringify(chatBody()), "utf16le"), /not valid JSON/],
    [
      "D18 65 levels",
      JSON.stringify(chatBody({ x: JSON.parse(nested(64)) })),
      /nested more than 64 levels deep/,
    ],
    ["D18 60,000 brackets", "[".repeat(60_000), /nested more than 64 levels deep/],
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
    ["unknown fields at the top", { top_k: 5, "x y": null, ünïcode: "🦊", "": 0 }],
    [
      "unknown fields at every depth",
      { messages: [{ role: "user", content: [{ type: "text", text: "a", x: { y: [1] } }], z: 1 }] },
    ],
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

  test("of duplicate keys the last wins, in what is judged and in what is sent", async () => {
    const twice = JSON.stringify(chatBody()).replace(
      /}$/,
      `,"model":"${CHAT}","n":1,"max_tokens":7,"max_tokens":2}`,
    )
    expect((await sendText(`{"model":"nothing","n":0,${twice.slice(1)}`)).status).toBe(200)
    const sent = harness.provider.requests.at(-1)
    expect(sent?.json).toEqual({ ...chatBody({ model: "upstream-model" }), n: 1, max_tokens: 2 })
    expect(sent?.body.match(/"max_tokens"/g)).toHaveLength(1)
  })

  test("__proto__ is a field like any other", async () => {
    const text = JSON.stringify(chatBody()).replace(/}$/, ',"__proto__":{"n":0},"constructor":1}')
    expect((await sendText(text)).status).toBe(200)
    expect(harness.provider.requests.at(-1)?.body).toEndWith(',"__proto__":{"n":0},"constructor":1}')
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

import { describe, expect, test } from "bun:test"
import { makeKey } from "../../src/admission/key.ts"
import { expectIds } from "../http/errors.ts"
import { testHarness } from "../http/harness.ts"
import type { Answer } from "../support/answer.ts"
import { filesBelow } from "../support/files-below.ts"
import { ADMIN_TOKEN, CHAT, MESSAGES, PROVIDER_KEY, until, untilIs } from "../support/gateway.ts"
import {
  chatCompletion,
  chatWords,
  type Exchange,
  json,
  type Script,
  sse,
  sseEvent,
  usage,
} from "../support/provider.ts"

/** What is planted, by where it is planted. No two share a word, so that a find says where it came from. */
const PROMPT = "canary-prompt-71aa"
const HEADER = "canary-header-5c0e"
const ADDRESS = "canary-address-e19b"
/** Named by the client; operators see it, and it is stored in one table, which the view `calls` reads (D94). */
const END_USER = "canary-user-4f2c"
const OUTPUT = "canary-output-b3d4"
const FAILURE = "canary-failure-0d77"

const unknown = makeKey()
const harness = await testHarness()
const account = await harness.account()
const revoked = await harness.key(account.id, { name: "revoked" })
await harness.gateway.admin("DELETE", `/keys/${revoked.id}`)

/** The secrets, without that beginning of a key which people may tell it by. */
const secrets = () => [
  PROVIDER_KEY,
  ADMIN_TOKEN,
  ...[account.key, revoked.key, unknown].map((key) => key.slice(12)),
]
const hidden = () => [PROMPT, HEADER, ADDRESS, OUTPUT, FAILURE, ...secrets()]
const planted = () => [END_USER, ...hidden()]
/** Those that a client or an operator sends, and nobody is told again. */
const asked = () => [PROMPT, HEADER, ADDRESS, ...secrets()]

function found(text: string, canaries: readonly string[]): string[] {
  return canaries.filter((canary) => text.includes(canary))
}

const json_type = "content-type: application/json"
const noise = [
  `x-${HEADER}: ${HEADER}`,
  `cookie: ${HEADER}`,
  `x-request-id: ${HEADER}`,
  `user-agent: ${HEADER}`,
]

/** Fields of a chat request that all say the canary. */
const fields = {
  messages: [
    { role: "system", content: PROMPT, name: PROMPT },
    {
      role: "user",
      content: [
        { type: "text", text: PROMPT },
        { type: "image_url", image_url: { url: PROMPT } },
      ],
    },
  ],
  tools: [{ type: "function", function: { name: PROMPT, description: PROMPT } }],
  metadata: { [PROMPT]: PROMPT },
  user: END_USER,
  [PROMPT]: PROMPT,
}

function chat(key: string, more: object = {}, headers: readonly string[] = []): Promise<Answer> {
  return harness.ask({
    method: "POST",
    target: `/v1/chat/completions?${ADDRESS}=${ADDRESS}`,
    headers: [`authorization: Bearer ${key}`, json_type, ...noise, ...headers],
    body: { model: CHAT, ...fields, ...more },
  })
}

function count(key: string, more: object = {}, headers: readonly string[] = []): Promise<Answer> {
  return harness.ask({
    method: "POST",
    target: `/v1/messages/count_tokens?${ADDRESS}=${ADDRESS}`,
    headers: [`x-api-key: ${key}`, json_type, "anthropic-version: 2023-06-01", ...noise, ...headers],
    body: { model: MESSAGES, ...fields, ...more },
  })
}

/** What a provider says that repeats all it was told, its own credential first of all. */
const repeating = {
  error: {
    message: `${PROVIDER_KEY} ${FAILURE}`,
    code: PROVIDER_KEY,
    type: PROVIDER_KEY,
    param: PROVIDER_KEY,
  },
}
const told = {
  "x-canary": FAILURE,
  "set-cookie": FAILURE,
  "www-authenticate": PROVIDER_KEY,
  "retry-after": "3",
}
const output = chatCompletion(OUTPUT, { usage: usage(10, 5) })

const provider: readonly [what: string, more: object, script: Script, status: number][] = [
  ["a JSON answer", {}, json(200, output, told), 200],
  ["a stream", { stream: true }, sse(chatWords(OUTPUT), { usage: usage(10, 5) }), 200],
  ["a stream that breaks", { stream: true }, sse(chatWords(OUTPUT), { done: false, ending: "reset" }), 200],
  ["an error event", { stream: true }, sse([...chatWords(OUTPUT).slice(0, 3), repeating]), 200],
  ["an error event alone", { stream: true }, sse([repeating]), 200],
  ["an error in a 200", {}, json(200, repeating), 502],
  ["an answer that is none", {}, json(200, `<html>${OUTPUT} ${PROVIDER_KEY}</html>`), 502],
  ["no answer", {}, json(200, ""), 502],
  ...[400, 404, 413, 422].map((status): [string, object, Script, number] => [
    `a ${status}`,
    {},
    json(status, repeating, told),
    status === 422 ? 400 : status,
  ]),
  ...[401, 403, 500, 302].map((status): [string, object, Script, number] => [
    `a ${status}`,
    {},
    json(status, repeating, { ...told, location: `https://${FAILURE}.test/${PROVIDER_KEY}` }),
    502,
  ]),
  ["a 429", {}, json(429, repeating, told), 429],
]

const clients: readonly [what: string, ask: () => Promise<Answer>, status: number][] = [
  ["a key that nobody has", () => chat(unknown), 401],
  ["a revoked key", () => chat(revoked.key), 401],
  ["the admin token", () => chat(ADMIN_TOKEN), 401],
  ["a key in the address", () => harness.ask({ target: `/v1/models?key=${account.key}&${ADDRESS}` }), 401],
  [
    "a key for an operator's",
    () =>
      harness.ask({ target: `/admin/audit?${ADDRESS}`, headers: [`authorization: Bearer ${account.key}`] }),
    401,
  ],
  ["a body at fault", () => chat(account.key, { messages: [{ role: PROMPT }, { [PROMPT]: PROMPT }] }), 400],
  ["a version at fault", () => count(account.key, {}, [`anthropic-version: ${HEADER}`]), 400],
  [
    "an address at fault",
    () => harness.ask({ method: "POST", target: `/${ADDRESS}/v1/messages/count_tokens?${unknown}` }),
    404,
  ],
  [
    "an operator's body at fault",
    () => operator("POST", "/admin/accounts", { name: { [PROMPT]: PROMPT } }),
    400,
  ],
  [
    "an operator's query at fault",
    () => operator("GET", `/admin/calls?key=${unknown}&after=${ADDRESS}`),
    400,
  ],
]

function operator(method: string, target: string, body?: object): Promise<Answer> {
  const headers = [`authorization: Bearer ${ADMIN_TOKEN}`, json_type, ...noise]
  return harness.ask({ method, target, headers, ...(body === undefined ? {} : { body }) })
}

describe("D16 canaries that were planted are nowhere", () => {
  const answers: Answer[] = []

  test.each(provider)("the provider: %s", async (_, more, script, status) => {
    harness.provider.replyOnce(script)
    const answer = await chat(account.key, more)
    answers.push(answer)
    expect(answer.status).toBe(status)
    expect(harness.provider.requests.at(-1)?.body).toContain(PROMPT)
    expect(found(JSON.stringify(answer), asked())).toEqual([])
    if (status !== 200) expect(found(JSON.stringify(answer.headers), planted())).toEqual([])
    expect(found(harness.gateway.lines.join("\n"), planted())).toEqual([])
  })

  test.each(clients)("the client: %s", async (_, ask, status) => {
    const answer = await ask()
    answers.push(answer)
    expect(answer.status).toBe(status)
    expect(found(JSON.stringify(answer), planted())).toEqual([])
    expect(found(harness.gateway.lines.join("\n"), planted())).toEqual([])
  })

  test("not in a page, a list or a metric", async () => {
    const { id } = (await harness.gateway.calls())[0] ?? {}
    for (const target of ["/", "/docs", "/docs/json", "/livez", "/readyz"]) {
      const { status, body } = await harness.ask({ target })
      expect({ target, status, found: found(body, planted()) }).toEqual({ target, status: 200, found: [] })
    }
    for (const target of [
      "/metrics",
      "/admin/accounts",
      `/admin/accounts/${account.id}/keys`,
      `/admin/accounts/${account.id}/credits`,
      "/admin/calls?limit=500",
      `/admin/calls/${id}`,
      "/admin/audit",
    ]) {
      const { status, body } = await operator("GET", target)
      const canaries = target.startsWith("/admin/calls") ? hidden() : planted()
      expect({ target, status, found: found(body, canaries) }).toEqual({ target, status: 200, found: [] })
    }
    const keys = await operator("GET", `/admin/accounts/${account.id}/keys`)
    expect(keys.body).toContain(account.key.slice(0, 12))
  })

  test("not in the spool, in which a settlement waits for its table", async () => {
    const started = Promise.withResolvers<Exchange>()
    harness.provider.replyOnce(async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(chatWords(OUTPUT).map(sseEvent).join(""))
      started.resolve(exchange)
    })
    const running = chat(account.key, { stream: true })
    const exchange = await started.promise
    await harness.gateway.sql.begin(async (lock) => {
      await lock`LOCK TABLE tollgate.holds IN ACCESS EXCLUSIVE MODE`
      await exchange.chunk("data: [DONE]\n\n")
      await exchange.end()
      const kept = await until(
        () => filesBelow(harness.gateway.data_dir).join("\n"),
        (texts) => texts.includes("settled"),
      )
      expect(found(kept, planted())).toEqual([])
    })
    const id = expectIds(await running)
    await untilIs(() => harness.gateway.call(id), { state: "settled" })
  })

  test("not in any table of the ledger", async () => {
    const { sql } = harness.gateway
    const tables = await sql`SELECT table_name FROM information_schema.tables WHERE table_schema = 'tollgate'`
    const names = tables.map(({ table_name }) => String(table_name))
    expect(names).toContain("holds")
    for (const name of names) {
      const rows = await sql`SELECT row_to_json(entry)::text AS text FROM ${sql(`tollgate.${name}`)} AS entry`
      const text = rows.map((row) => row.text).join("\n")
      const told = ["end_users", "calls"].includes(name) ? [END_USER] : []
      expect({ name, found: found(text, planted()) }).toEqual({ name, found: told })
      if (name === "keys") expect(text).toContain(account.key_id)
    }
  })

  test("they were planted: the provider saw the prompt, and clients the output", () => {
    expect(harness.provider.requests.filter(({ body }) => body.includes(PROMPT)).length).toBeGreaterThan(15)
    expect(answers.filter(({ body }) => body.includes(OUTPUT)).length).toBeGreaterThan(2)
    expect(answers.filter(({ body }) => body.includes(FAILURE)).length).toBeGreaterThan(2)
  })
})

import { describe, expect, test } from "bun:test"
import { makeKey } from "../../src/admission/key.ts"
import { chatModel } from "../support/gateway.ts"
import { expectError, expectIds, ownHeaders } from "./errors.ts"
import { CANARY, testHarness } from "./harness.ts"

const PATHS = ["/v1/models", "/v1/models/", "/models", "/models/"]
const VERSION = "anthropic-version: 2023-06-01"
const CHATS = ["zeta", "alpha", "Ünïcode/model:1 🦊", "twin"]
const MESSAGES = ["opus", "twin"]

const harness = await testHarness(configuration)
const account = await harness.account("0")

function configuration(url: string, chats = CHATS) {
  const model = (family: string) => (name: string) =>
    chatModel(name, { family, upstreams: [{ use: family, model: `upstream-${CANARY}` }] })
  return {
    vendors: ["anthropic", "acme-ai"],
    upstreams: {
      chat: { family: "chat", base_url: `${url}/v1`, api_key: CANARY },
      messages: { family: "messages", base_url: url },
    },
    models: [...MESSAGES.map(model("messages")), ...chats.map(model("chat"))],
  }
}

/** The list of a key, by default of one that may use everything. */
function list(headers: readonly string[] = [], target = "/v1/models", key = account.key) {
  return harness.ask({ target, headers: [`authorization: Bearer ${key}`, ...headers] })
}

/** One entry in the shape that both SDK families read. */
function entry(id: string) {
  return {
    id,
    object: "model",
    created: 0,
    owned_by: "tollgate",
    type: "model",
    display_name: id,
    created_at: "1970-01-01T00:00:00Z",
    operations: expect.any(Array),
  }
}

function page(...ids: readonly string[]) {
  return {
    object: "list",
    data: ids.map(entry),
    has_more: false,
    first_id: ids.at(0) ?? null,
    last_id: ids.at(-1) ?? null,
  }
}

describe("spec 4.2 four paths", () => {
  const rows: readonly [what: string, headers: string[], names: readonly string[]][] = [
    ["the chat models", [], CHATS],
    ["D23 with a version header the messages-style models", [VERSION], MESSAGES],
    ["D23 with another vendor's version header as well", ["Acme-AI-Version: 2024-02-29"], MESSAGES],
    ["a version header of nobody's changes nothing", ["openai-version: 2023-06-01"], CHATS],
  ]
  test.each(rows)("D23 the same bytes, in the configuration's order: %s", async (_, headers, names) => {
    const answers = await Promise.all(PATHS.map((path) => list(headers, path)))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect(new Set(answers.map(({ body }) => body)).size).toBe(1)
    expect(answers[0]?.json).toEqual(page(...names))
  })

  test("D24 the headers are content type and request ids", async () => {
    const answer = await list()
    const id = expectIds(answer)
    expect(ownHeaders(answer)).toEqual({
      "content-type": "application/json",
      "x-request-id": id,
      "request-id": id,
    })
  })

  test("the query is ignored: there is one page", async () => {
    const { body } = await list()
    for (const query of ["?limit=1", "?after_id=zeta", "?before_id=x&limit=0", "?beta=true"]) {
      for (const path of PATHS) expect((await list([], path + query)).body).toBe(body)
    }
  })
})

describe("D23 one model", () => {
  const SPECIAL = "Ünïcode/model:1 🦊"
  const rows: readonly [path: string, headers: string[], name: string | null][] = [
    ["alpha", [], "alpha"],
    ["alpha?beta=true", [], "alpha"],
    [encodeURIComponent(SPECIAL), [], SPECIAL],
    [encodeURI(SPECIAL), [], SPECIAL],
    ["opus", [VERSION], "opus"],
    ["twin", [VERSION], "twin"],
    ["opus", [], null],
    ["alpha", [VERSION], null],
    ["ALPHA", [], null],
    ["alpha/", [], null],
    ["alpha/alpha", [], null],
    ["alpha/%E0%A4%A", [], null],
    [`upstream-${CANARY}`, [], null],
    ["__proto__", [], null],
  ]
  test.each(rows)("%s with %j: %p", async (path, headers, name) => {
    for (const place of ["/v1/models/", "/models/"]) {
      const answer = await list(headers, place + path)
      if (name === null) expectError(answer, "model_not_found", { param: "model" })
      else expect(answer).toMatchObject({ status: 200, json: entry(name) })
    }
  })

  test("of a key that is limited to others, without a key, with another method", async () => {
    const { key } = await harness.key(account.id, { models: ["zeta"] })
    expect((await list([], "/v1/models/zeta", key)).status).toBe(200)
    expectError(await list([], "/v1/models/alpha", key), "model_not_found", { param: "model" })
    expectError(await harness.ask({ target: "/v1/models/alpha" }), "invalid_api_key")
    const headers = [`authorization: Bearer ${account.key}`]
    expectError(
      await harness.ask({ method: "DELETE", target: "/v1/models/alpha", headers }),
      "method_not_allowed",
      { headers: { allow: "GET, HEAD" } },
    )
  })
})

describe("D23 a key that is limited to some models sees those, in the configuration's order", () => {
  const rows: readonly [models: readonly string[], chats: readonly string[], messages: readonly string[]][] =
    [
      [["twin", "zeta"], ["zeta", "twin"], ["twin"]],
      [["opus"], [], ["opus"]],
      [["ZETA", " alpha", "nothing", `upstream-${CANARY}`], [], []],
      [["opus", ...CHATS], CHATS, MESSAGES],
    ]
  test.each(rows)("%j", async (models, chats, messages) => {
    const { key } = await harness.key(account.id, { models })
    for (const path of PATHS) {
      expect((await list([], path, key)).json).toEqual(page(...chats))
      expect((await list([VERSION], path, key)).json).toEqual(page(...messages))
    }
  })
})

describe("D21 a version header that is none", () => {
  const rows: readonly [headers: string[], param: string][] = [
    [["anthropic-version: 2023-02-30"], "anthropic-version"],
    [[VERSION, VERSION], "anthropic-version"],
    [[VERSION, "acme-ai-version: 2023-06-01"], "acme-ai-version"],
  ]
  test.each(rows)("%j is a 400", async (headers, param) => {
    for (const path of PATHS) expectError(await list(headers, path), "invalid_request", { param })
  })

  test("D30 after the credential's form, before the key", async () => {
    const wrong = "anthropic-version: latest"
    expectError(await list([wrong], "/models", "nonsense"), "invalid_api_key")
    expectError(await list([wrong], "/models", makeKey()), "invalid_request", { param: "anthropic-version" })
  })
})

test("a reload's models are in the next list, and a limited key's limits stay", async () => {
  const { key } = await harness.key(account.id, { models: ["new", "zeta"] })
  expect((await list([], "/models", key)).json).toEqual(page("zeta"))
  await harness.gateway.reload(configuration(harness.provider.url, ["new"]))
  expect((await list([], "/models", key)).json).toEqual(page("new"))
  expect((await list()).json).toEqual(page("new"))
  await harness.gateway.reload(configuration(harness.provider.url, []))
  expect((await list()).json).toEqual(page())
  await harness.gateway.reload(configuration(harness.provider.url))
})

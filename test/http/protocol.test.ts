import { describe, expect, spyOn, test } from "bun:test"
import { Pace } from "../../src/admission/memory.ts"
import { SLICE_BYTES } from "../../src/wire/shape.ts"
import { ADMIN_TOKEN, CHAT } from "../support/gateway.ts"
import { jsonDraft, requestBytes } from "../support/request.ts"
import { expectError, expectIds } from "./errors.ts"
import { CANARY, chatBody, chatDraft, testHarness } from "./harness.ts"

const harness = await testHarness()
const account = await harness.account()

const PROBED = ["/", "/livez", "/health", "/readyz"]
const READ = [...PROBED, "/docs", "/docs/json", "/docs/assets/page.css"]
const LISTS = ["/v1/models", "/v1/models/", "/models", "/models/"]
const RECEIPTS = ["/v1/account", "/v1/usage", "/v1/calls/01a1fdba-bbb4-7000-889f-26dc4478d767"]
const CALLS = [
  "/v1/chat/completions",
  "/chat/completions",
  "/v1/messages/count_tokens",
  "/anthropic/v1/messages/count_tokens",
  "/v1/quote",
]
const ID = "01a1fdba-bbb4-7000-889f-26dc4478d767"

describe("D15 a wrong method is a 405 that says the right ones", () => {
  const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]
  const rows: readonly [target: string, allow: string][] = [
    ...PROBED.map((target): [string, string] => [target, "GET, HEAD, OPTIONS"]),
    ...[...READ.slice(PROBED.length), ...LISTS, ...RECEIPTS].map((target): [string, string] => [
      target,
      "GET, HEAD",
    ]),
    ...CALLS.map((target): [string, string] => [target, "POST"]),
    ["/admin/accounts", "GET, HEAD, POST"],
    [`/admin/accounts/${ID}`, "GET, HEAD, PATCH"],
    [`/admin/accounts/${ID}/credits`, "GET, HEAD, POST"],
    [`/admin/keys/${ID}`, "DELETE, PATCH"],
    ["/admin/usage", "GET, HEAD"],
    ["/admin/audit", "GET, HEAD"],
  ]
  test.each(rows)("%s takes %s", async (target, allow) => {
    for (const method of METHODS.filter((name) => !allow.split(", ").includes(name))) {
      const answer = await harness.ask({ method, target, headers: [`authorization: Bearer ${account.key}`] })
      if (method === "HEAD") {
        expect(answer).toMatchObject({ status: 405, body: "", headers: { allow } })
        expectIds(answer)
      } else {
        expectError(answer, "method_not_allowed", { headers: { allow } })
      }
    }
  })
})

describe("D33 an unknown route is a 404 that says what exists", () => {
  const paths = [
    "/nothing",
    `/${CANARY}`,
    "//v1//models",
    "/v1/",
    "/V1/models",
    "/v1%2Fmodels",
    "/openai/v1/chat/completions",
    "/anthropic/v1/models",
    "/docs/assets/../../package.json",
    "/v1/m\xf6dels",
  ]
  test.each(paths.flatMap((path) => ["GET", "POST"].map((method) => [method, path] as const)))(
    "%s %s",
    async (method, target) => {
      const message = expectError(await harness.ask({ method, target }), "not_found")
      for (const here of [
        "/v1/chat/completions",
        "/v1/models",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/docs",
      ]) {
        expect(message).toContain(here)
      }
    },
  )
})

test.each([
  ["/v1/v1/messages", /GET \/v1\/models\. .*The base URL of Anthropic SDKs has no \/v1\.$/],
  ["/v1/v1/messages/count_tokens", /The base URL of Anthropic SDKs has no \/v1\.$/],
  ...["/admin", "/admin/", "/admin/nothing"].map(
    (target) =>
      [target, /^This path does not exist\. The paths of \/admin are in the reference: \/docs\.$/] as const,
  ),
])("D33 the 404 of %s says where its caller should look", async (target, message) => {
  expectError(await harness.ask({ method: "POST", target }), "not_found", { message })
})

describe("D33 HEAD works where GET does, without a body", () => {
  test.each([...READ, ...LISTS, "/metrics", "/admin/accounts"].map((target) => [target]))(
    "%s",
    async (target) => {
      const token = /^\/(admin|metrics)/.test(target) ? ADMIN_TOKEN : account.key
      const headers = [`authorization: Bearer ${token}`]
      const got = await harness.ask({ target, headers })
      const answer = await harness.ask({ method: "HEAD", target, headers })
      expect(answer).toMatchObject({ status: 200, body: "" })
      expect(answer.headers["content-type"]).toBe(got.headers["content-type"] ?? "")
      if (target !== "/metrics") {
        expect(answer.headers["content-length"]).toBe(got.headers["content-length"] ?? "")
      }
      expect(expectIds(answer)).not.toBe(expectIds(got))
    },
  )
})

describe("D15 the request's frame", () => {
  const refused: readonly [what: string, request: string][] = [
    ["two different Host headers", "GET /livez HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n"],
    ["two hosts in one header", "GET /livez HTTP/1.1\r\nhost: a, b\r\n\r\n"],
    ["HTTP/1.0 without a Host", "GET /v1/models HTTP/1.0\r\n\r\n"],
    ["CONNECT to another host", "CONNECT provider.test:443 HTTP/1.1\r\nhost: provider.test:443\r\n\r\n"],
    ["CONNECT to a path", "CONNECT /livez HTTP/1.1\r\nhost: gateway.test\r\n\r\n"],
  ]
  test.each(refused)("%s is a 400", async (_, request) => {
    expectError(await harness.say(request), "invalid_request")
  })

  test("a query with more parameters than any operation has is a 400 before they are read", async () => {
    const target = (count: number) => `/v1/account?${"a=1&".repeat(count - 1)}a=1`
    expectError(await harness.ask({ target: target(100) }), "invalid_api_key")
    expectError(await harness.ask({ target: target(101) }), "invalid_request", { message: /100 parameters/ })
  })

  test("a URL of more than 6,000 characters is a 400 before it is read", async () => {
    const target = (characters: number) => `/v1/account?a=${"%41".repeat(characters / 3)}`
    expectError(await harness.ask({ target: target(5_700) }), "invalid_api_key")
    expectError(await harness.ask({ target: target(6_000) }), "invalid_request", {
      message: /6000 characters/,
    })
  })

  test("two Host headers are a 400 before a call is made of them", async () => {
    await harness.untouched(account.id, async () => {
      const draft = chatDraft(account.key, {}, ["host: other.test"])
      expectError(await harness.ask(draft), "invalid_request", { message: /Host/ })
    })
  })

  const hosts = ["", "a/v1/models?", "user@a", "\xe9", "[::1", "a:b", "a:99999"]
  test.each(hosts.map((host) => [host]))(
    "the Host %j is none: a 400, wherever the path seems to lead",
    async (host) => {
      for (const path of [
        "/livez",
        "/0123456789a/livez",
        "/0123456789a/admin/accounts",
        "/admin/calls?limit=1",
      ]) {
        const lines = [
          `GET ${path} HTTP/1.1`,
          `host: ${host}`,
          `authorization: Bearer ${ADMIN_TOKEN}`,
          "",
          "",
        ]
        expectError(await harness.say(Buffer.from(lines.join("\r\n"), "latin1")), "invalid_request", {
          message: /Host/,
        })
      }
    },
  )

  const accepted: readonly [what: string, request: string][] = [
    ["HTTP/1.0 with a Host", "GET /livez HTTP/1.0\r\nhost: a\r\n\r\n"],
    ["the absolute form", "GET http://gateway.test/livez HTTP/1.1\r\nhost: gateway.test\r\n\r\n"],
    ["dot segments", "GET /v1/../livez HTTP/1.1\r\nhost: gateway.test\r\n\r\n"],
    ["a query", "GET /livez?x=1&x=%zz#f HTTP/1.1\r\nhost: gateway.test\r\n\r\n"],
  ]
  test.each(accepted)("%s is taken", async (_, request) => {
    expect((await harness.say(request)).json).toEqual({ status: "alive" })
  })

  test.each(["a", "gw", "x.y"])("the Host %j changes no route", async (host) => {
    const ask = (start: string) =>
      harness.say(`${start} HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 0\r\n\r\n`)
    for (const path of READ) expect((await ask(`GET ${path}`)).status).toBe(200)
    for (const path of [...LISTS, ...RECEIPTS]) expectError(await ask(`GET ${path}`), "invalid_api_key")
    for (const path of CALLS) expectError(await ask(`POST ${path}`), "invalid_api_key")
    for (const path of ["/admin/accounts", "/metrics"])
      expectError(await ask(`GET ${path}`), "invalid_api_key")
    expectError(await ask("DELETE /metrics"), "method_not_allowed", { headers: { allow: "GET, HEAD" } })
    expectError(await ask("GET /nothing"), "not_found")
  })

  const malformed: readonly [what: string, request: () => string, status: number][] = [
    ["no Host in HTTP/1.1", () => "GET /livez HTTP/1.1\r\n\r\n", 400],
    ["no HTTP at all", () => `${CANARY}\r\n\r\n`, 400],
    ["another version of HTTP", () => "GET /livez HTTP/3.0\r\nhost: a\r\n\r\n", 505],
    ["a header of 20 kB", () => `GET /livez HTTP/1.1\r\nhost: a\r\nx: ${CANARY.repeat(1_600)}\r\n\r\n`, 431],
    ["a target of 20 kB", () => `GET /${CANARY.repeat(1_600)} HTTP/1.1\r\nhost: a\r\n\r\n`, 431],
    ["250 headers", () => `GET /livez HTTP/1.1\r\nhost: a\r\n${"x: y\r\n".repeat(250)}\r\n`, 431],
  ]
  test.each(malformed)("%s is refused by the server, which then hangs up", async (_, request, status) => {
    await harness.untouched(account.id, async () => {
      const line = harness.dial()
      line.send(request())
      expect(harness.note(await line.answer())).toMatchObject({ status, body: "" })
      await line.over
    })
  })
})

describe("D33 the probes of load balancers are answered", () => {
  const probes: readonly [who: string, request: string, method: string][] = [
    ["HAProxy, with nothing said", "OPTIONS / HTTP/1.0\r\n\r\n", "OPTIONS"],
    ["HAProxy, with an address said", "OPTIONS /readyz HTTP/1.0\r\n\r\n", "OPTIONS"],
    ["HAProxy, with a method said", "GET /readyz HTTP/1.0\r\n\r\n", "GET"],
    ["HTTP/1.0 with a Host", "GET /livez HTTP/1.0\r\nhost: gateway\r\n\r\n", "GET"],
    [
      "Kubernetes",
      "GET /readyz HTTP/1.1\r\nHost: 10.0.0.1:8080\r\nUser-Agent: kube-probe/1.31\r\nAccept: */*\r\nConnection: close\r\n\r\n",
      "GET",
    ],
  ]
  test.each(probes)("%s", async (_, request, method) => {
    const line = harness.dial()
    line.send(request)
    const answer = await line.answer(method)
    expect(answer.status).toBe(200)
    expectIds(answer)
    await line.over
  })

  test.each(["GET /metrics", "GET /readyz/x", "POST /v1/chat/completions"])(
    "%s of HTTP/1.0 without Host is a 400",
    async (start) => {
      const line = harness.dial()
      line.send(`${start} HTTP/1.0\r\n\r\n`)
      expectError(await line.answer(), "invalid_request", { message: /exactly one valid Host header/ })
    },
  )
})

describe("one connection, many requests", () => {
  const livez = requestBytes({ target: "/livez" })

  test("a body that comes after its refusal is a body, whatever it holds", async () => {
    const line = harness.dial()
    const body = Buffer.concat([requestBytes({ method: "DELETE", target: `/admin/keys/${ID}` }), livez])
    line.send(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`,
    )
    expectError(harness.note(await line.answer()), "invalid_api_key")
    line.send(Buffer.concat([body, requestBytes({ target: "/nothing" })]))
    expectError(harness.note(await line.answer()), "not_found")
    line.leave()
  })

  test("a client that waits for 100-continue gets it, then its answer", async () => {
    const line = harness.dial()
    const [head = "", body = ""] = requestBytes(chatDraft(account.key, {}, ["expect: 100-continue"]))
      .toString()
      .split("\r\n\r\n")
    line.send(`${head}\r\n\r\n`)
    expect((await line.answer()).status).toBe(100)
    line.send(body)
    expect((await line.answer()).status).toBe(200)
    line.leave()
  })
})

test("D16 a client's own request id is not taken over, and no id comes twice", async () => {
  const own = [`x-request-id: ${ID}`, `request-id: ${ID}`]
  const ids: string[] = []
  for (let call = 0; call < 20; call++)
    ids.push(expectIds(await harness.ask({ target: "/livez", headers: own })))
  expect(new Set(ids).size).toBe(20)
  expect(ids).not.toContain(ID)
  expect([...ids].sort()).toEqual(ids)
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
      expectError(
        await harness.ask(jsonDraft(account.key, "/v1/chat/completions", body)),
        "invalid_request",
        { message },
      )
    })
  })
})

describe("D19 a model's name matches byte for byte", () => {
  const rows: readonly string[] = [
    `${CHAT} `,
    `${CHAT}\u0000`,
    `${CHAT}\u200b`,
    "upstream-model",
    "__proto__",
    CANARY,
  ]
  test.each(rows.map((name) => [name]))("%j is not found", async (model) => {
    await harness.untouched(account.id, async () => {
      expectError(await harness.chat(account.key, { model }), "model_not_found", { param: "model" })
    })
  })
})

/** JSON text that is this many levels deep. */
function nested(levels: number): string {
  return "[".repeat(levels) + "]".repeat(levels)
}

test("D78 a large body is measured, parsed, described and sent in turns of its own", async () => {
  const { key } = await harness.account()
  const read = spyOn(Pace.prototype, "read")
  expect((await harness.chat(key, { user: "x".repeat(100_000) })).status).toBe(200)
  const turns = read.mock.calls.map(([, bytes]) => bytes)
  read.mockRestore()
  const [bytes = 0] = turns
  expect(bytes).toBeGreaterThan(100_000)
  // To parse it, it takes two whole turns, in which no other body is parsed.
  expect(turns).toEqual([bytes, undefined, 2 * SLICE_BYTES, bytes, 2_048])
})

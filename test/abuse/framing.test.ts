import { describe, expect, test } from "bun:test"
import { expectError } from "../http/errors.ts"
import { chatBody, chatDraft, testHarness } from "../http/harness.ts"
import { ADMIN_TOKEN } from "../support/operator.ts"
import { requestBytes } from "../support/request.ts"

const harness = await testHarness()
const account = await harness.account()

const BODY = JSON.stringify(chatBody())
const LENGTH = String(BODY.length)
const LAST = "0\r\n\r\n"
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`

/** The head of a call with a good key; `lines` say how its body is framed. */
function head(...lines: readonly string[]): string {
  const start = ["POST /v1/chat/completions HTTP/1.1", "host: a", `authorization: Bearer ${account.key}`]
  return [...start, "content-type: application/json", ...lines, "", ""].join("\r\n")
}

/** A whole second call, which somebody would like to hide in the first one. */
const hidden = () => requestBytes(chatDraft(account.key)).toString()
const chunked = (text: string) => head("transfer-encoding: chunked") + text
const livez = (...lines: readonly string[]) =>
  ["GET /livez HTTP/1.1", "host: a", ...lines, "", ""].join("\r\n")

describe("what two parsers could read in two ways is refused, and the connection ends with it", () => {
  const REFUSED = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
  const VERSION = "HTTP/1.1 505 HTTP Version Not Supported\r\nConnection: close\r\n\r\n"
  const rows: readonly [what: string, bytes: () => string, answer?: string][] = [
    [
      "TE and CL",
      () => head("transfer-encoding: chunked", `content-length: ${LENGTH}`) + chunk(BODY) + LAST + hidden(),
    ],
    ["TE of another name", () => head("transfer-encoding: xchunked") + chunk(BODY) + LAST + hidden()],
    [
      "TE chunked, identity",
      () => head("transfer-encoding: chunked, identity") + chunk(BODY) + LAST + hidden(),
    ],
    ["TE gzip, chunked", () => head("transfer-encoding: gzip, chunked") + chunk(BODY) + LAST],
    ["TE twice", () => head("transfer-encoding: chunked", "transfer-encoding: chunked") + chunk(BODY) + LAST],
    [
      "TE behind a vertical tab",
      () => head("transfer-encoding: \x0bchunked") + chunk(BODY) + LAST + hidden(),
    ],
    ["TE before a space", () => head("transfer-encoding : chunked") + chunk(BODY) + LAST + hidden()],
    ["CL twice, different", () => head("content-length: 5", "content-length: 6") + BODY],
    ["CL as a list", () => head(`content-length: ${LENGTH}, ${LENGTH}`) + BODY],
    ["CL with a sign", () => head(`content-length: +${LENGTH}`) + BODY],
    ["CL beyond 64 bits", () => head("content-length: 99999999999999999999999") + BODY],
    ["a chunk's size below zero", () => chunked(`-1\r\n${BODY}\r\n${LAST}`)],
    ["a chunk's size beyond 64 bits", () => chunked(`fffffffffffffffff\r\n${BODY}\r\n${LAST}`)],
    ["a space behind a chunk's size", () => chunked(`${chunk(BODY).replace("\r", " \r")}${LAST}`)],
    [
      "a chunk that does not end where it says",
      () => chunked(`${BODY.length.toString(16)}\r\n${BODY}XX${LAST}`),
    ],
    ["a folded chunk extension", () => chunked(`${chunk(BODY).replace("\r", ";a\n b\r")}${LAST}`)],
    ["chunks with bare line feeds", () => chunked(`${chunk(BODY)}${LAST}`.replaceAll("\r\n", "\n"))],
    ["a bare CR in a header", () => livez("x: a\rb: c")],
    ["a bare LF in a header", () => livez(`x: a\nauthorization: Bearer ${account.key}`)],
    ["a NUL in a header", () => livez("x: a\0b")],
    ["a folded credential", () => livez("authorization: Bearer", ` ${account.key}`)],
    ["a folded first header", () => "GET /livez HTTP/1.1\r\n host: a\r\n\r\n"],
    ["a header without a colon", () => livez("x")],
    ["a header without a name", () => livez(": x")],
    ["a header's name with a bracket", () => livez("x(y): z")],
    ["two spaces in the first line", () => livez().replace(" ", "  ")],
    ["empty lines before the first", () => `\r\n\r\n${livez()}`],
    ["OPTIONS *", () => livez().replace("GET /livez", "OPTIONS *")],
    ["a target without a slash", () => livez().replace("/livez", "livez")],
    ["another scheme", () => livez().replace("/livez", "ftp://a/livez")],
    ["a preface of HTTP/2", () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["lines that end with CR", () => livez().replaceAll("\r\n", "\r"), VERSION],
    ["lines that end with LF", () => livez().replaceAll("\r\n", "\n"), VERSION],
    ["HTTP/0.9", () => "GET /livez\r\n\r\n", VERSION],
  ]
  test.each(rows)("%s", async (_, bytes, answer = REFUSED) => {
    await harness.untouched(account.id, async () => {
      const line = harness.dial()
      line.send(Buffer.from(bytes(), "latin1"))
      line.halfClose()
      expect(await line.over).toBe(answer)
    })
  })

  test.each(["get", "Get", "post", "BREW", ""])(
    "the method %j, which no route has, ends the connection",
    async (method) => {
      const line = harness.dial()
      line.send(livez().replace("GET", method))
      expect(["", REFUSED]).toContain(await line.over)
    },
  )
})

describe("what can be read in one way only is answered, and the next request begins where this one ends", () => {
  const rows: readonly [what: string, bytes: () => string][] = [
    ["chunks", () => chunked(chunk(BODY) + LAST)],
    ["TE in capitals", () => head("Transfer-Encoding: CHUNKED") + chunk(BODY) + LAST],
    ["TE behind a tab", () => head("transfer-encoding:\tchunked") + chunk(BODY) + LAST],
    [
      "a header that only looks like TE",
      () => head("transfer_encoding: chunked", `content-length: ${LENGTH}`) + BODY,
    ],
    ["CL twice, the same", () => head(`content-length: ${LENGTH}`, `content-length: ${LENGTH}`) + BODY],
    ["CL with zeros before it", () => head(`content-length: 000${LENGTH}`) + BODY],
    ["a chunk extension", () => chunked(`${chunk(BODY).replace("\r", ";a=b\r")}${LAST}`)],
    ["an expectation that nobody knows", () => head("expect: nonsense", `content-length: ${LENGTH}`) + BODY],
  ]
  test.each(rows)("%s", async (_, bytes) => {
    const line = harness.dial()
    line.send(bytes())
    expect(harness.note(await line.answer()).status).toBe(200)
    line.send(livez())
    expect((await line.answer()).json).toEqual({ status: "alive" })
    line.leave()
  })

  const bodies: readonly [what: string, bytes: () => string][] = [
    ["GET with a body", () => `${livez("content-length: 5")}hello`],
    [
      "GET with a body that looks like a call",
      () => `${livez(`content-length: ${hidden().length}`)}${hidden()}`,
    ],
    ["GET with chunks", () => `${livez("transfer-encoding: chunked")}${chunk(hidden())}${LAST}`],
    [
      "h2c",
      () => livez("connection: upgrade, http2-settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQ"),
    ],
    [
      "a web socket",
      () => livez("connection: upgrade", "upgrade: websocket", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="),
    ],
  ]
  test.each(bodies)("%s", async (_, bytes) => {
    await harness.untouched(account.id, async () => {
      const line = harness.dial()
      for (let round = 0; round < 2; round++) {
        line.send(bytes())
        expect((await line.answer()).json).toEqual({ status: "alive" })
      }
      line.leave()
    })
  })
})

describe("D25 hop-by-hop headers, and those that a proxy would trust, go no further", () => {
  const sent = () =>
    (harness.provider.requests.at(-1)?.raw_headers ?? []).map(([name, value]) =>
      /request-id$/i.test(name) ? `${name}: an id` : `${name}: ${value}`,
    )
  const rows: readonly (readonly string[])[] = [
    ["connection: authorization, content-type, content-length, host"],
    ["connection: keep-alive", "keep-alive: timeout=1000"],
    ["proxy-connection: keep-alive", "proxy-authorization: Basic eDp5"],
    ["te: trailers, deflate", "trailer: authorization"],
    ["via: 1.1 evil", "max-forwards: 0"],
    ["forwarded: for=127.0.0.1;host=evil", "x-forwarded-for: 127.0.0.1", "x-forwarded-host: evil"],
    ["x-real-ip: 127.0.0.1", "x-original-url: /admin", "x-rewrite-url: /admin/audit"],
    ["x-http-method-override: DELETE", "x-method-override: GET"],
    ["cookie: a=b", "origin: https://evil.test", "referer: https://evil.test"],
    ["openai-organization: org-evil", "openai-project: p", "api-key: evil", "x-api-key: evil"],
    ["anthropic-version: 2023-06-01", "anthropic-beta: x"],
    ["range: bytes=0-1", "if-none-match: *", "accept-encoding: gzip, br", "accept: text/html"],
  ]
  test.each(rows.map((headers) => [headers]))("%j", async (headers) => {
    expect((await harness.chat(account.key)).status).toBe(200)
    const usual = sent()
    expect(usual.length).toBeGreaterThan(4)
    expect((await harness.chat(account.key, {}, headers)).status).toBe(200)
    expect(sent()).toEqual(usual)
  })
})

describe("D21 tricks in the path of /<vendor>/", () => {
  const COUNT = "/v1/messages/count_tokens"
  const tricks = [
    "/anthropic/",
    "//anthropic",
    "/anthropic%00",
    "/anthropic%2e",
    "/anthropi%63",
    "/anthropic%2f",
    "/ANTHROPIC",
    "/\xe0nthropic",
    "/anthropic%0d%0ax:y",
    "/constructor",
    "/__proto__",
    "/admin",
    "/v1",
    "/..%2fanthropic",
    "/:vendor",
    `/${"a".repeat(2_000)}`,
  ]
  test.each(tricks.map((trick) => [trick]))("%j is a 404", async (trick) => {
    await harness.untouched(account.id, async () => {
      const headers = [
        `x-api-key: ${account.key}`,
        "content-type: application/json",
        "anthropic-version: 2023-06-01",
      ]
      const target = `${trick}${COUNT}`
      expect((await harness.ask({ method: "POST", target, headers, body: "{}" })).status).toBe(404)
    })
  })

  test.each([
    "/anthropic/../admin/audit",
    "/anthropic/%2e%2e/admin/audit",
    "/v1\\..\\metrics",
    "/./metrics",
    "/admin\\audit",
    "/admin/./audit",
    "/admin/accounts/../audit",
    "/admin/../v1\\..\\admin/audit",
    "/admin/accounts/x\\..\\..\\audit",
    "/console/assets/../../admin/audit",
  ])("D39 what is for operators is served only as it is spelled, not as %s", async (target) => {
    const headers = [`authorization: Bearer ${ADMIN_TOKEN}`]
    expectError(await harness.ask({ target, headers }), "not_found")
    expectError(await harness.ask({ method: "POST", target, headers, body: "{}" }), "not_found")
    for (const plain of ["/admin/audit", "/admin/audit?x=/../y"]) {
      expect((await harness.ask({ target: plain, headers })).status).toBeLessThan(401)
    }
  })

  test("dot segments are resolved before the route of a client", async () => {
    const key = [`authorization: Bearer ${account.key}`]
    const at = await harness.ask({ target: "/anthropic/../v1/models", headers: key })
    expect(at.status).toBe(200)
  })

  test("header injection through the version header: what is no date goes nowhere", async () => {
    const tricks = [
      "2023-06-01%0d%0ax-evil: 1",
      "2023-06-01\tx",
      "2023-06-01, 2023-06-01",
      "２０２３-06-01",
      "+2023-06-01",
      "2023-06-01;x",
    ]
    for (const version of tricks) {
      await harness.untouched(account.id, async () => {
        const headers = [`anthropic-version: ${Buffer.from(version).toString("latin1")}`]
        expect((await harness.count(account.key, {}, headers)).status).toBe(400)
      })
    }
    await harness.untouched(account.id, async () => {
      const raw = requestBytes({
        method: "POST",
        target: COUNT,
        headers: [
          `x-api-key: ${account.key}`,
          "content-type: application/json",
          "anthropic-version: 2023-06-01\nx-evil: 1",
        ],
        body: "{}",
      })
      expect((await harness.say(raw)).status).toBe(400)
    })
  })
})

import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { expectError, expectIds } from "../http/errors.ts"
import { chatDraft, countDraft, type Harness, openHarness } from "../http/harness.ts"
import type { Answer } from "../support/answer.ts"
import { ADMIN_TOKEN } from "../support/gateway.ts"

const PAGE = "https://app.example.com"
const OTHER = "http://localhost:3000"

/** The headers of an answer that are CORS'. */
function said({ headers }: Answer): Record<string, string> {
  const names = Object.keys(headers).filter((name) => name === "vary" || name.startsWith("access-control-"))
  return Object.fromEntries(names.map((name) => [name, headers[name] ?? ""]))
}

function preflight(harness: Harness, target: string, headers: readonly string[]): Promise<Answer> {
  return harness.ask({ method: "OPTIONS", target, headers })
}

const CALLS = ["/v1/chat/completions", "/chat/completions", "/v1/messages/count_tokens"]
const asks = (origin: string, ...more: readonly string[]) => [
  `origin: ${origin}`,
  "access-control-request-method: POST",
  ...more,
]

describe("D40 CORS is off unless it is configured", () => {
  let harness: Harness
  let key: string
  beforeAll(async () => {
    harness = await openHarness()
    key = (await harness.account()).key
  })
  afterAll(() => harness.close())

  test.each(CALLS)("OPTIONS %s is a 405 like any other", async (target) => {
    expectError(await preflight(harness, target, asks(PAGE)), "method_not_allowed", {
      headers: { allow: "POST" },
    })
  })

  test("no answer says anything of origins", async () => {
    for (const headers of [[], [`origin: ${PAGE}`]]) {
      expect(said(await harness.ask(chatDraft(key, {}, headers)))).toEqual({})
      expect(said(await harness.ask(chatDraft(key, { messages: [] }, headers)))).toEqual({})
    }
  })
})

describe("D40 pages of the configured origins may call", () => {
  let harness: Harness
  let key: string
  beforeAll(async () => {
    harness = await openHarness({ cors: { origins: [PAGE, OTHER] } })
    key = (await harness.account()).key
  })
  afterAll(() => harness.close())

  const shown = (origin: string) => ({
    vary: "origin",
    "access-control-allow-origin": origin,
    "access-control-expose-headers": "x-request-id, request-id, retry-after, x-should-retry",
  })

  test.each([PAGE, OTHER])(
    "a preflight of %s is told the path's methods and its own headers",
    async (origin) => {
      const rows = [
        ...CALLS.map((path) => [path, "POST"]),
        ["/v1/models", "GET, HEAD"],
        ["/livez", "GET, HEAD"],
      ]
      const names = "authorization,content-type,x-stainless-os"
      for (const [path = "", methods = ""] of rows) {
        const answer = await preflight(
          harness,
          path,
          asks(origin, `access-control-request-headers: ${names}`),
        )
        expect(answer).toMatchObject({ status: 204, body: "" })
        expectIds(answer)
        expect(said(answer)).toEqual({
          ...shown(origin),
          "access-control-allow-methods": methods,
          "access-control-allow-headers": names,
          "access-control-max-age": "600",
        })
      }
    },
  )

  test("header names that are none are not repeated", async () => {
    for (const names of ["x-a\x80", "a(b)", "a;b", `x-${"a".repeat(1_023)}`, '"']) {
      const answer = await preflight(
        harness,
        "/models",
        asks(PAGE, `access-control-request-headers: ${names}`),
      )
      expect(answer.status).toBe(204)
      expect(said(answer)).not.toContainKey("access-control-allow-headers")
    }
  })

  test("every answer may be read by the page, a stream and an error too; credentials of the browser never", async () => {
    const origin = [`origin: ${PAGE}`]
    const bearer = `authorization: Bearer ${key}`
    const answers = [
      await harness.ask(chatDraft(key, {}, origin)),
      await harness.ask(chatDraft(key, { stream: true }, origin)),
      await harness.ask(chatDraft(key, { messages: [] }, origin)),
      await harness.ask(chatDraft("", {}, origin)),
      await harness.ask(countDraft(key, {}, ["anthropic-version: 2023-06-01", ...origin])),
      await harness.ask({ target: "/models", headers: [bearer, ...origin] }),
      await harness.ask({ target: "/nothing", headers: origin }),
      await harness.ask({ method: "PUT", target: "/models", headers: origin }),
    ]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 400, 401, 200, 200, 404, 405])
    for (const answer of answers) expect(said(answer)).toEqual(shown(PAGE))
  })

  test.each([
    "https://evil.example.com",
    "http://app.example.com",
    "https://app.example.com.evil.test",
    "https://APP.example.com",
    `${PAGE}, ${OTHER}`,
    "null",
    "*",
    "",
  ])("the origin %j is told nothing, and its preflight is a 405", async (origin) => {
    for (const target of CALLS) {
      const answer = await preflight(harness, target, asks(origin))
      expectError(answer, "method_not_allowed", { headers: { allow: "POST", vary: "origin" } })
    }
    const answer = await harness.ask(chatDraft(key, {}, [`origin: ${origin}`]))
    expect({ status: answer.status, said: said(answer) }).toEqual({ status: 200, said: { vary: "origin" } })
  })

  test("without an origin a cache is told that it matters, and nothing else", async () => {
    expect(said(await harness.ask(chatDraft(key)))).toEqual({ vary: "origin" })
  })

  test("OPTIONS without a method in mind is no preflight; at a path that is not there it is a 404", async () => {
    expectError(await preflight(harness, "/models", [`origin: ${PAGE}`]), "method_not_allowed", {
      headers: { allow: "GET, HEAD", ...shown(PAGE) },
    })
    expectError(await preflight(harness, "/nothing", asks(PAGE)), "not_found", { headers: shown(PAGE) })
  })

  test.each(["/admin/accounts", "/admin/audit", "/admin", "/metrics"])(
    "what is for operators is for no page: %s",
    async (target) => {
      expect((await preflight(harness, target, asks(PAGE))).status).toBeGreaterThanOrEqual(404)
      expect(said(await preflight(harness, target, asks(PAGE)))).toEqual({})
      const headers = [`origin: ${PAGE}`, `authorization: Bearer ${ADMIN_TOKEN}`]
      expect(said(await harness.ask({ target, headers }))).toEqual({})
    },
  )

  test("a reload changes who may, at once", async () => {
    await harness.gateway.reload({ cors: { origins: [OTHER] } })
    expect((await preflight(harness, "/models", asks(PAGE))).status).toBe(405)
    expect((await preflight(harness, "/models", asks(OTHER))).status).toBe(204)
    await harness.gateway.reload({})
    expect((await preflight(harness, "/models", asks(OTHER))).status).toBe(405)
    await harness.gateway.reload({ cors: { origins: [PAGE, OTHER] } })
  })
})

import { afterAll, describe, expect, test } from "bun:test"
import { expectError, expectIds } from "../http/errors.ts"
import { chatDraft, countDraft } from "../http/harness.ts"
import type { Answer } from "../support/answer.ts"
import { ADMIN_TOKEN, startGateway } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { HELLO, heldBack, startProvider } from "../support/provider.ts"
import { dial } from "../support/raw-client.ts"
import { type Draft, requestBytes } from "../support/request.ts"
import { thrown } from "../support/thrown.ts"

const provider = await startProvider()
provider.reply(HELLO)
const gateway = await startGateway(provider, { admin: { port: 0 }, cors: { origins: ["https://app.test"] } })
const adminApi = { url: `http://127.0.0.1:${gateway.service.admin_server?.port}` }
const account = await operatorOf(adminApi.url).account()
afterAll(async () => {
  const { violations, open_holds } = await operatorOf(adminApi.url).audit()
  await gateway.stop()
  await provider.stop()
  expect({ violations, open_holds }).toEqual({ violations: [], open_holds: 0 })
})

async function ask(where: { readonly url: string }, draft: Draft): Promise<Answer> {
  const line = dial(where)
  line.send(requestBytes(draft))
  const answer = await line.answer(draft.method)
  line.leave()
  return answer
}

const token = `authorization: Bearer ${ADMIN_TOKEN}`
const ID = "01a1fdba-bbb4-7000-889f-26dc4478d767"
const FOR_OPERATORS = [
  "/metrics",
  "/admin/accounts",
  `/admin/accounts/${ID}`,
  `/admin/accounts/${ID}/keys`,
  `/admin/keys/${ID}`,
  "/admin/calls",
  `/admin/calls/${ID}`,
  "/admin/audit",
  "/console",
  "/console/assets/page.js",
]
const METHODS = ["GET", "HEAD", "POST", "DELETE", "OPTIONS"]

describe("D39 where operators have a listener of their own", () => {
  test.each(FOR_OPERATORS)(
    "the clients' one does not know %s, whatever the method and the token",
    async (target) => {
      for (const method of METHODS) {
        const answer = await ask(gateway, { method, target, headers: [token], body: "" })
        if (method === "HEAD") expect(answer.status).toBe(404)
        else expectError(answer, "not_found", { message: /^(?!.*(admin|metrics))/ })
      }
    },
  )

  test("it serves operators, and asks for the token as ever", async () => {
    expect((await ask(adminApi, { target: "/metrics", headers: [token] })).body).toContain(
      "tollgate_requests_total",
    )
    for (const target of ["/admin/audit", "/console", "/console/assets/page.js"])
      expect((await ask(adminApi, { target, headers: [token] })).status).toBe(200)
    expectError(await ask(adminApi, { target: "/admin/audit" }), "invalid_api_key")
    const users = [`authorization: Bearer ${account.key}`]
    expectError(await ask(adminApi, { target: "/admin/audit", headers: users }), "invalid_api_key")
  })

  test.each([
    ["a chat completion", () => chatDraft(account.key)],
    ["a token count", () => countDraft(account.key)],
    ["a page of a key's holder", () => ({ target: "/account" })],
    ["a model list", () => ({ target: "/v1/models", headers: [`authorization: Bearer ${account.key}`] })],
  ])("it knows no %s", async (_, draft) => {
    const asked = provider.requests.length
    expectError(await ask(adminApi, draft()), "not_found", { message: /Available: \/admin and \/metrics/ })
    expect(provider.requests).toHaveLength(asked)
  })

  test("both say how the gateway is, and describe what they serve", async () => {
    const paths = async (where: { readonly url: string }) => {
      for (const target of ["/livez", "/readyz", "/", "/docs"]) {
        expect((await ask(where, { target })).status).toBe(200)
      }
      const { body } = await ask(where, { target: "/docs/json" })
      return Object.keys(JSON.parse(body).paths)
    }
    expect((await ask(gateway, { target: "/account" })).status).toBe(200)
    const [clients, operators] = [await paths(gateway), await paths(adminApi)]
    expect(clients).toContain("/v1/chat/completions")
    expect(clients.filter((path) => path.startsWith("/admin") || path === "/metrics")).toEqual([])
    expect(operators).toContain("/admin/accounts")
    expect(operators).toContain("/metrics")
    expect(operators.filter((path) => /chat|models|count_tokens/.test(path))).toEqual([])
  })

  test("D40 no page may call the operators' one", async () => {
    const page = ["origin: https://app.test", "access-control-request-method: GET"]
    const answer = await ask(adminApi, { method: "OPTIONS", target: "/metrics", headers: page })
    expectError(answer, "method_not_allowed", { headers: { allow: "GET, HEAD" } })
    const probed = await ask(adminApi, { method: "OPTIONS", target: "/livez", headers: page })
    expect(Object.keys(probed.headers).filter((name) => name.startsWith("access-control"))).toEqual([])
  })

  test("what the one counts the other shows", async () => {
    const answer = await ask(gateway, chatDraft(account.key))
    expect(answer.status).toBe(200)
    const { body } = await ask(adminApi, { target: "/metrics", headers: [token] })
    expect(body).toMatch(/^tollgate_requests_total\{route="\/v1\/chat\/completions",status="200"\} 1$/m)
    expect((await operatorOf(adminApi.url).call(expectIds(answer))).state).toBe("settled")
  })

  test("a reload moves no listener", async () => {
    await gateway.reload({})
    expectError(await ask(gateway, { target: "/admin/audit", headers: [token] }), "not_found")
    expect((await ask(adminApi, { target: "/admin/audit", headers: [token] })).status).toBe(200)
  })
})

test("D34 operators are served until the last call is settled", async () => {
  const slow = await startGateway(provider, { admin: { port: 0 } })
  const operators = { url: `http://127.0.0.1:${slow.service.admin_server?.port}` }
  const { key } = await operatorOf(operators.url).account()
  const { held, release } = heldBack(HELLO)
  const number = provider.requests.length + 1
  provider.replyOnce(held)
  const running = ask(slow, chatDraft(key))
  await provider.exchange(number)
  slow.service.shutdown.signal()
  expect((await ask(operators, { target: "/metrics", headers: [token] })).body).toContain(
    "tollgate_open_holds 1",
  )
  expect((await ask(operators, { target: "/readyz" })).status).toBe(503)
  release()
  expect((await running).status).toBe(200)
  expect(await slow.exited).toBe(0)
  expect(await thrown(fetch(`${operators.url}/livez`))).toBeInstanceOf(Error)
  await slow.remove()
})

import { describe, expect, test } from "bun:test"
import { ADMIN_TOKEN, CHAT, chat, PRICE } from "../support/gateway.ts"
import { HELLO } from "../support/provider.ts"
import { postJson } from "../support/request.ts"
import { testGateway } from "../support/test-gateway.ts"

/** D42: keys and accounts that are limited, as clients meet them. */

const model = { family: "chat", upstreams: [{ use: "first" }], max_output_tokens: 1000 }
const { gateway } = await testGateway(
  {
    models: [
      { name: CHAT, ...model, price: PRICE },
      { name: "free", ...model, free: true },
    ],
  },
  HELLO,
)

const codeOf = async (answer: Response) => [
  answer.status,
  JSON.parse(await answer.text()).error?.code ?? null,
]

describe("D42 the life of keys and accounts", () => {
  test("a key that is made with a limit, and one that is limited to models later", async () => {
    const { id } = await gateway.account("10")
    const made = await gateway.admin<{ id: string; key: string }>("POST", `/accounts/${id}/keys`, {
      spending_limit: { amount: "0", per: "month" },
    })
    expect(await codeOf(await chat(gateway, made.key))).toEqual([402, "spending_limit_reached"])
    await gateway.admin("PATCH", `/keys/${made.id}`, {
      spending_limit: null,
      models: ["free"],
      name: "later",
    })
    expect(await codeOf(await chat(gateway, made.key))).toEqual([403, "model_not_allowed"])
    expect((await chat(gateway, made.key, { model: "free" })).status).toBe(200)
    const expiring = (in_ms: number) => ({ expires_at: new Date(Date.now() + in_ms).toISOString() })
    const change = gateway.admin("PATCH", `/keys/${made.id}`, expiring(-1_000))
    await expect(change).rejects.toThrow('"param":"expires_at"')
    const { expires_at } = expiring(3_600_000)
    expect(
      await gateway.admin<object>("PATCH", `/keys/${made.id}`, { models: null, name: null, expires_at }),
    ).toMatchObject({ models: null, name: null, expires_at })
    expect((await chat(gateway, made.key)).status).toBe(200)
  })

  test("a creation with an id of one's own may be repeated: one account, one key, shown once", async () => {
    const post = (path: string, body: object) => postJson(`${gateway.url}/admin${path}`, ADMIN_TOKEN, body)
    const [id, key_id] = [crypto.randomUUID(), crypto.randomUUID()]
    const accounts = await Promise.all([1, 2, 3].map(() => post("/accounts", { id, name: "once" })))
    expect(accounts.map(({ status }) => status).sort()).toEqual([200, 200, 201])
    const keys = await Promise.all([1, 2, 3].map(() => post(`/accounts/${id}/keys`, { id: key_id })))
    expect(keys.map(({ status }) => status).sort()).toEqual([200, 200, 201])
    const shown = await Promise.all(
      keys.map(async (answer) => ("key" in JSON.parse(await answer.text()) ? 1 : 0)),
    )
    expect(shown.reduce((sum: number, one) => sum + one, 0)).toBe(1)
    const { id: other } = await gateway.account("0")
    expect(await codeOf(await post(`/accounts/${other}/keys`, { id: key_id }))).toEqual([
      400,
      "invalid_request",
    ])
  })
})

import { describe, expect, test } from "bun:test"
import { ADMIN_TOKEN, CHAT, chat, PRICE } from "../support/gateway.ts"
import { chatCompletion, HELLO, json, usage } from "../support/provider.ts"
import { postJson } from "../support/request.ts"
import { testGateway } from "../support/test-gateway.ts"

/** D42, D44: keys and accounts that are suspended and limited, and calls with a price of their own, as clients meet them. */

const model = { family: "chat", upstreams: [{ use: "first" }], max_output_tokens: 1000 }
const { provider, gateway } = await testGateway(
  {
    models: [
      { name: CHAT, ...model, price: PRICE },
      { name: "per-call", ...model, price: { ...PRICE, per_call: "0.05" } },
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
    const expires_at = new Date(Date.now() + 3_600_000).toISOString()
    expect(
      await gateway.admin<object>("PATCH", `/keys/${made.id}`, { models: null, name: null, expires_at }),
    ).toMatchObject({ models: null, name: null, expires_at })
    expect((await chat(gateway, made.key)).status).toBe(200)
  })

  test("a change that is wrong changes nothing, and says which field; an id that is not there is a 404", async () => {
    const { id, key_id } = await gateway.account("1")
    const change = (path: string, body: object) =>
      gateway.admin("PATCH", path, body).then(
        () => "done",
        (error: unknown) => String(error),
      )
    const past = new Date(Date.now() - 1_000).toISOString()
    const rows: [body: object, param: string][] = [
      [{ suspended: "yes" }, "suspended"],
      [{ name: "" }, "name"],
      [{ models: [] }, "models"],
      [{ expires_at: past }, "expires_at"],
      [{ spending_limit: { amount: "-1", per: "day" } }, "spending_limit"],
      [{ spending_limit: { amount: 1, per: "day" } }, "spending_limit"],
      [{ spending_limit: { amount: "1", per: "week" } }, "spending_limit"],
      [{ revoked_at: null }, "revoked_at"],
    ]
    for (const [body, param] of rows) {
      const said = await change(`/keys/${key_id}`, { ...body })
      expect(said).toContain("400")
      expect(said).toContain(`"param":"${param}"`)
    }
    expect(await change(`/accounts/${id}`, { balance: "5" })).toContain(`"param":"balance"`)
    expect(await change(`/accounts/${crypto.randomUUID()}`, { name: "x" })).toContain("404")
    expect(await change(`/keys/${crypto.randomUUID()}`, { name: "x" })).toContain("404")
    const { data } = await gateway.admin<{ data: object[] }>("GET", `/accounts/${id}/keys`)
    expect(data).toMatchObject([{ name: null, models: null, suspended: false, spending_limit: null }])
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

describe("D44 what a call costs as such", () => {
  test("is charged and recorded beside its tokens", async () => {
    const { id, key } = await gateway.account("1")
    const answer = await chat(gateway, key, { model: "per-call" })
    expect(answer.status).toBe(200)
    expect(await gateway.callOf(answer)).toMatchObject({ charge: "0.05003", prices: { per_call: "0.05" } })
    expect((await gateway.balance(id)).held).toBe("0")
  })

  test("D2 usage of 0 charges nothing, the price of a call included", async () => {
    const { key } = await gateway.account("1")
    provider.replyOnce(json(200, chatCompletion("", { usage: usage(0, 0) })))
    const answer = await chat(gateway, key, { model: "per-call" })
    expect(await gateway.callOf(answer)).toMatchObject({ state: "settled", basis: "usage", charge: "0" })
  })
})

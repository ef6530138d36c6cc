import { beforeAll, describe, expect, test } from "bun:test"
import { makeKey } from "../../src/admission/key.ts"
import type { Answer } from "../support/answer.ts"
import { chatModel, MESSAGES, untilIs } from "../support/gateway.ts"
import { HELLO, heldBack, json } from "../support/provider.ts"
import { expectError } from "./errors.ts"
import { testHarness } from "./harness.ts"

const IN_FLIGHT = 3
/** How many failures in a row open a breaker. */
const FAILURES = 5

const harness = await testHarness(configuration)
const account = await harness.account()

function configuration(url: string) {
  const upstream = { family: "chat", base_url: `${url}/v1` }
  const model = (name: string, ...uses: string[]) =>
    chatModel(name, { upstreams: uses.map((use) => ({ use, model: `model-of-${use}` })) })
  return {
    limits: { in_flight: IN_FLIGHT },
    upstreams: {
      fragile: upstream,
      steady: upstream,
      counter: { family: "messages", base_url: url },
    },
    models: [
      model("fragile", "fragile"),
      model("steady", "steady"),
      { ...model(MESSAGES, "counter"), family: "messages" },
    ],
  }
}

function ask(model: string, fields: object = {}): Promise<Answer> {
  return harness.chat(account.key, { model, ...fields })
}

describe("D33 limits.in_flight", () => {
  test("of three times as many what fits is served, the rest is a 503 before any hold; counts and lists go on", async () => {
    for (let round = 0; round < 3; round++) {
      const { held, release } = heldBack(HELLO)
      harness.provider.replyOnce(...Array.from({ length: IN_FLIGHT }, () => held))
      const arrived = harness.provider.requests.length + IN_FLIGHT
      const running = Array.from({ length: IN_FLIGHT }, () => ask("steady"))
      await harness.provider.exchange(arrived)
      await harness.untouched(account.id, async () => {
        const more = Array.from({ length: 2 * IN_FLIGHT }, (_, at) => ask("steady", { stream: at % 2 === 0 }))
        for (const answer of await Promise.all(more))
          expectError(answer, "overloaded", { headers: { "retry-after": "1" } })
      })
      expect((await harness.count(account.key)).status).toBe(200)
      expect(
        (await harness.ask({ target: "/models", headers: [`authorization: Bearer ${account.key}`] })).status,
      ).toBe(200)
      release()
      expect((await Promise.all(running)).map(({ status }) => status)).toEqual([200, 200, 200])
      // A place is free once its call is settled.
      await untilIs(() => harness.gateway.balance(account.id), { held: "0" })
    }
  })
})

describe("D33 five failures in a row open an upstream's breaker", () => {
  beforeAll(async () => {
    for (let call = 0; call < FAILURES; call++) {
      harness.provider.replyOnce(json(503, {}))
      expectError(await ask("fragile"), "upstream_unavailable")
    }
  })

  test("503 at once, before any hold; the key is still judged", async () => {
    await harness.untouched(account.id, async () => {
      expectError(await ask("fragile"), "upstream_unavailable")
      expectError(await ask("fragile", { stream: true }), "upstream_unavailable")
      expectError(await harness.chat(makeKey(), { model: "fragile" }), "invalid_api_key")
    })
  })

  test("D30 what is wrong with the key, its models or its balance is told first", async () => {
    const revoked = await harness.key(account.id, {})
    expect((await harness.chat(revoked.key, { model: "steady" })).status).toBe(200)
    await harness.gateway.admin("DELETE", `/keys/${revoked.id}`)
    const limited = await harness.key(account.id, { models: ["steady"] })
    const poor = await harness.account("0.000001")
    await harness.untouched(account.id, async () => {
      expectError(await harness.chat(revoked.key, { model: "fragile" }), "invalid_api_key")
      expectError(await harness.chat(limited.key, { model: "fragile" }), "model_not_allowed", {
        param: "model",
      })
      expect((await harness.chat(poor.key, { model: "fragile" })).status).toBe(402)
    })
  })

  test("D97 so is the budget of its end user", async () => {
    const { id, key } = await harness.account()
    const path = `/accounts/${id}/budgets`
    const budget = { name: "Each user", selector: "end_user", amount: "0.000001", per: "total" }
    const { id: budget_id } = await harness.gateway.admin<{ id: string }>("POST", path, budget)
    const refused = await harness.chat(key, { model: "fragile", user: "ann" })
    expect(refused.status).toBe(402)
    expect(refused.json).toMatchObject({ error: { code: "budget_reached", budget: { id: budget_id } } })
  })
})

import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { nextId } from "../../src/id.ts"
import type { OwnAccount, Receipt } from "../../src/wire/receipt.ts"
import type { UsageReport } from "../../src/wire/usage-report.ts"
import { CHAT, chat, startGateway, until, untilIs } from "../support/gateway.ts"
import { nanoOf } from "../support/price.ts"
import { chatCompletion, chatWords, heldBack, json, sse, usage } from "../support/provider.ts"
import { testGateway } from "../support/test-gateway.ts"

const { provider, gateway } = await testGateway()

/** How a key is sent: as the chat family does, and as the messages family does. */
const families = {
  bearer: (key: string) => ({ authorization: `Bearer ${key}` }),
  named: (key: string) => ({ "x-api-key": key }),
}

async function read<Body>(path: string, key: string, headers: Record<string, string> = families.bearer(key)) {
  const answer = await fetch(`${gateway.url}${path}`, { headers })
  const body: Body = JSON.parse(await answer.text())
  return { status: answer.status, headers: answer.headers, body }
}

const idOf = (answer: Response) => answer.headers.get("x-request-id") ?? ""

describe("D47 a receipt", () => {
  test("of a settled call: held, charged by its basis and pinned prices, the rest released", async () => {
    const { key, key_id } = await gateway.account("1")
    provider.replyOnce(json(200, chatCompletion("hello there", { usage: usage(10, 5, 4) })))
    const id = idOf(await chat(gateway, key))
    const { status, headers, body } = await read<Receipt>(`/v1/calls/${id}`, key)
    expect([status, headers.get("cache-control")]).toEqual([200, "no-store"])
    expect(body).toEqual({
      id,
      key_id,
      model: CHAT,
      operation: "chat",
      stream: false,
      session_id: null,
      agent_id: null,
      tags: {},
      end_user: null,
      end_user_id: null,
      state: "settled",
      basis: "usage",
      ending: "completed",
      failure: null,
      notes: [],
      held: "0.004035",
      charge: "0.0000264",
      released: "0.0040086",
      overage: "0",
      refunded: "0",
      usage: { prompt_tokens: 10, cached_tokens: 4, completion_tokens: 5 },
      estimate: null,
      unread: [],
      unexplained_tokens: 0,
      prices: { input: "1", cached_input: "0.1", output: "4", per_call: "0" },
      lines: [
        { kind: "input", count: 6, price: "1", cost: "0.000006" },
        { kind: "cached_input", count: 4, price: "0.1", cost: "0.0000004" },
        { kind: "output", count: 5, price: "4", cost: "0.00002" },
      ],
      held_at: expect.any(String),
      ttft_ms: expect.any(Number),
      duration_ms: expect.any(Number),
      settled_at: expect.any(String),
    })
    expect(await read(`/v1/calls/${id.toUpperCase()}`, key, families.named(key))).toMatchObject({ body })
  })

  test("of a stream, an open call first: nothing of a charge before there is one", async () => {
    const { key } = await gateway.account("1")
    const go = heldBack(sse(chatWords("one", " two"), { usage: usage(10, 5) }))
    provider.replyOnce(go.held)
    const sent = provider.requests.length + 1
    const answering = chat(gateway, key, { stream: true })
    await provider.exchange(sent)
    const [call] = await gateway.calls("?state=open")
    const open = await read<Receipt>(`/v1/calls/${call?.id}`, key)
    expect(open.body).toMatchObject({
      state: "open",
      held: "0.004035",
      charge: null,
      released: null,
      overage: null,
      refunded: "0",
      usage: null,
      settled_at: null,
    })
    go.release()
    const answer = await answering
    await answer.text()
    expect(idOf(answer)).toBe(String(call?.id))
    const receipt = await gateway.receipt(answer, key)
    expect(receipt).toMatchObject({ state: "settled", stream: true, charge: "0.00003", released: "0.004005" })
  })

  test("D11 of an overage, and of a released call", async () => {
    const { key } = await gateway.account("1")
    provider.replyOnce(json(200, chatCompletion("hi", { usage: usage(100, 100) })))
    const over = idOf(await chat(gateway, key, { max_tokens: 5 }))
    expect((await read<Receipt>(`/v1/calls/${over}`, key)).body).toMatchObject({
      held: "0.000055",
      charge: "0.0005",
      released: "0",
      overage: "0.000445",
      notes: ["overage"],
    })
    provider.replyOnce(json(500, {}))
    const failed = idOf(await chat(gateway, key))
    expect((await read<Receipt>(`/v1/calls/${failed}`, key)).body).toMatchObject({
      state: "released",
      basis: "none",
      failure: "upstream_error",
      charge: "0",
      released: "0.004035",
      usage: null,
    })
  })

  test.each([
    ["no UUID", () => "x", ""],
    ["unknown", nextId, ""],
  ])("404: %s", async (_, id) => {
    const { key } = await gateway.account("0")
    expect(await read(`/v1/calls/${id()}`, key)).toMatchObject({
      status: 404,
      body: { error: { code: "not_found" } },
    })
  })

  test("404 for a request that held nothing", async () => {
    const { key } = await gateway.account("0")
    const answer = await chat(gateway, key)
    expect(answer.status).toBe(402)
    expect((await read(`/v1/calls/${idOf(answer)}`, key)).status).toBe(404)
  })
})

describe("D47 the account", () => {
  test("its balance, what is held, and what the key may do", async () => {
    const { id, key, key_id } = await gateway.account("1.5")
    await gateway.admin("PATCH", `/keys/${key_id}`, {
      name: "night",
      models: [CHAT],
      expires_at: "2099-01-01T00:00:00Z",
      spending_limit: { amount: "0.5", per: "day" },
    })
    provider.replyOnce(json(200, chatCompletion("hi", { usage: usage(10, 5) })))
    await chat(gateway, key)
    expect((await read<OwnAccount>("/v1/account", key)).body).toEqual({
      id,
      name: "test",
      balance: "1.49997",
      held: "0",
      available: "1.49997",
      credit_limit: "0",
      grants: [],
      suspended: false,
      may_manage_keys: false,
      key: {
        id: key_id,
        name: "night",
        prefix: key.slice(0, 12),
        models: [CHAT],
        expires_at: "2099-01-01T00:00:00.000Z",
        suspended: false,
        spending_limit: { amount: "0.5", per: "day" },
        spent: "0.00003",
        group: null,
        previous_until: null,
      },
      budgets: [],
    })
  })

  test("D42 a suspended key and a key of a suspended account read on, and are told", async () => {
    const { id, key, key_id } = await gateway.account("1")
    provider.replyOnce(json(200, chatCompletion("hi", { usage: usage(10, 5) })))
    const call = idOf(await chat(gateway, key))
    await gateway.admin("PATCH", `/keys/${key_id}`, { suspended: true })
    await gateway.admin("PATCH", `/accounts/${id}`, { suspended: true })
    for (const path of [`/v1/calls/${call}`, "/v1/usage", "/v1/account", "/v1/models"]) {
      expect((await read(path, key)).status).toBe(200)
    }
    expect((await read<OwnAccount>("/v1/account", key)).body).toMatchObject({
      suspended: true,
      key: { suspended: true, spending_limit: null, spent: null },
    })
  })
})

describe("D47 who may read", () => {
  const paths = ["/v1/account", "/v1/usage", `/v1/calls/${nextId()}`]

  test.each(paths)(
    "%s is 401 without a key, with a revoked one, an expired one, and with two",
    async (path) => {
      const { id, key, key_id } = await gateway.account("1")
      const other = await gateway.account("1")
      for (const headers of [
        {},
        { authorization: "Bearer tg_live_x" },
        { ...families.bearer(key), ...families.named(other.key) },
      ]) {
        expect(await read(path, key, headers)).toMatchObject({
          status: 401,
          body: { error: { code: "invalid_api_key" } },
        })
      }
      const expires_at = new Date(Date.now() + 300).toISOString()
      const expired = await gateway.admin<{ key: string }>("POST", `/accounts/${id}/keys`, { expires_at })
      await gateway.admin("DELETE", `/keys/${key_id}`)
      expect((await read(path, key)).status).toBe(401)
      await untilIs(() => read(path, expired.key), { status: 401 })
    },
  )

  test.each([
    ["/v1/account?x=1", null],
    [`/v1/calls/${nextId()}?x=1`, null],
    ["/v1/usage?account=x", null],
    ["/v1/usage?by=account", "by"],
    ["/v1/usage?by=hour", "by"],
    ["/v1/usage?from=x", "from"],
  ])("an unknown query parameter is 400: %s", async (path, param) => {
    const { key } = await gateway.account("0")
    expect(await read(path, key)).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_request", param } },
    })
  })

  test("D30 an id that is none is reported after the key and before the query string", async () => {
    const { key } = await gateway.account("0")
    expect((await read("/v1/calls/nope?x=1", key)).status).toBe(404)
    expect((await read("/v1/calls/nope?x=1", "nonsense")).status).toBe(401)
  })

  test("D15 other methods are 405, HEAD is not", async () => {
    const { key } = await gateway.account("0")
    const headers = families.bearer(key)
    const ask = async (method: string, path: string) =>
      (await fetch(`${gateway.url}${path}`, { method, headers })).status
    expect(await ask("POST", "/v1/account")).toBe(405)
    expect(await ask("GET", "/v1/quote")).toBe(405)
    expect(await ask("HEAD", "/v1/account")).toBe(200)
  })
})

/** Every page of `/v1/calls`, of two receipts each. */
async function listAll(key: string, headers: Record<string, string>, filter = ""): Promise<Receipt[]> {
  const found: Receipt[] = []
  for (let after: string | null = ""; after !== null; ) {
    const path: string = `/v1/calls?${filter}limit=2${after === "" ? "" : `&after=${after}`}`
    const { body } = await read<{ data: Receipt[]; next: string | null }>(path, key, headers)
    found.push(...body.data)
    after = body.next
  }
  return found
}

test("D47, D48, D104 no key sees another account's call; usage and the list are its receipts, by day and by key", async () => {
  const accounts = await Promise.all(Array.from({ length: 3 }, () => gateway.account("1")))
  const second = await gateway.admin<{ id: string; key: string }>(
    "POST",
    `/accounts/${accounts[0]?.id}/keys`,
    {},
  )
  const holders = [
    ...accounts.map(({ id, key, key_id }) => ({ account_id: id, key, key_id })),
    { account_id: accounts[0]?.id ?? "", key: second.key, key_id: second.id },
  ]
  const holderAt = (at: number) => holders[at] ?? holders[0] ?? { account_id: "", key: "", key_id: "" }
  const made: { id: string; account_id: string; key_id: string }[] = []
  const call = fc.record({
    holder: fc.nat(holders.length - 1),
    prompt: fc.nat(500),
    completion: fc.integer({ min: 1, max: 500 }),
    stream: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(call, { maxLength: 4 }), async (calls) => {
      for (const { holder, prompt, completion, stream } of calls) {
        const tokens = usage(prompt, completion, prompt >> 1)
        provider.replyOnce(
          stream ? sse(chatWords("a"), { usage: tokens }) : json(200, chatCompletion("a", { usage: tokens })),
        )
        const { key, account_id, key_id } = holderAt(holder)
        const answer = await chat(gateway, key, { stream })
        await answer.text()
        await gateway.receipt(answer, key)
        made.push({ id: idOf(answer), account_id, key_id })
      }
      for (const [at, { key, account_id }] of holders.entries()) {
        const headers = at % 2 === 0 ? families.bearer(key) : families.named(key)
        const receipts: Receipt[] = []
        for (const { id, account_id: owner } of made) {
          const { status, body } = await read<Receipt>(`/v1/calls/${id}`, key, headers)
          expect(status).toBe(owner === account_id ? 200 : 404)
          if (status === 200) receipts.push(body)
          else expect(JSON.stringify(body)).not.toContain("charge")
        }
        const listed = await listAll(key, headers)
        const by_id = receipts
          // What a call was refunded is looked up for one call only.
          .map(({ refunded: _, ...receipt }) => receipt)
          .toSorted((left, right) => (left.id < right.id ? 1 : -1))
        expect(listed).toEqual(by_id)
        const last = by_id.at(-1)
        const others = by_id.filter(({ key_id }) => key_id !== last?.key_id)
        if (last !== undefined)
          expect(await listAll(key, headers, `key=${last.key_id}&`)).toEqual(
            by_id.filter((one) => !others.includes(one)),
          )
        await until(
          () => read<UsageReport>("/v1/usage", key, headers),
          ({ body }) => body.total.calls === receipts.length,
        )
        for (const by of ["model", "key", "day"]) {
          const { body } = await read<UsageReport>(`/v1/usage?by=${by}`, key, headers)
          expect(sums(body.data)).toEqual(sums([body.total]))
          expect(sums(body.data)).toEqual(sums(receipts.map(asSums)))
        }
        const { body } = await read<UsageReport>("/v1/usage?by=key", key, headers)
        const own = made.filter((call) => call.account_id === account_id).map(({ key_id }) => key_id)
        expect(body.data.map(({ group }) => group).sort()).toEqual([...new Set(own)].sort())
      }
      for (const receipt of made) {
        const { body } = await read<Receipt>(
          `/v1/calls/${receipt.id}`,
          holders.find(({ account_id }) => account_id === receipt.account_id)?.key ?? "",
        )
        expect(nanoOf(body.held) + nanoOf(body.overage)).toBe(nanoOf(body.charge) + nanoOf(body.released))
      }
    }),
    { numRuns: 3 },
  )
})

interface Sums {
  readonly calls: number
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly completion_tokens: number
  readonly charge: string | null
}

function asSums({ usage, charge }: Receipt): Sums {
  return { calls: 1, prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0, ...usage, charge }
}

function sums(of: readonly Sums[]) {
  const sum = (count: (one: Sums) => number) => of.reduce((total, one) => total + count(one), 0)
  return {
    calls: sum(({ calls }) => calls),
    prompt_tokens: sum(({ prompt_tokens }) => prompt_tokens),
    cached_tokens: sum(({ cached_tokens }) => cached_tokens),
    completion_tokens: sum(({ completion_tokens }) => completion_tokens),
    charge_nano: of.reduce((total, { charge }) => total + nanoOf(charge), 0n),
  }
}

test("D38 what is read counts as a request of its key", async () => {
  const limited = await startGateway(provider, { limits: { per_key: { requests_per_minute: 2 } } })
  const { key } = await limited.account("1")
  const ask = async (path: string, init: RequestInit = {}) =>
    (await fetch(`${limited.url}${path}`, { headers: families.bearer(key), ...init })).status
  expect([await ask("/v1/account"), await ask("/v1/usage")]).toEqual([200, 200])
  const quote = {
    method: "POST",
    headers: { ...families.bearer(key), "content-type": "application/json" },
    body: JSON.stringify({ model: CHAT, messages: [{ role: "user", content: "x" }] }),
  }
  expect([
    await ask("/v1/account"),
    await ask(`/v1/calls/${nextId()}`),
    await ask("/v1/usage"),
    await ask("/v1/quote", quote),
  ]).toEqual([429, 429, 429, 429])
  await limited.stop()
})

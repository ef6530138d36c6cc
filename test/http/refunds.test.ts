import { expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import { printUsd } from "../../src/money.ts"
import type { CallBody } from "../../src/wire/admin.ts"
import type { CreditedBody } from "../../src/wire/credit-bodies.ts"
import type { MoveBody } from "../../src/wire/moves.ts"
import type { Receipt } from "../../src/wire/receipt.ts"
import { ADMIN_TOKEN, chat, untilIs } from "../support/gateway.ts"
import { HELLO, heldBack } from "../support/provider.ts"
import { postJson } from "../support/request.ts"
import { testPair } from "../support/test-gateway.ts"
import { twoShards } from "../support/two-shards.ts"

/** D106: refunds of calls, over two gateways on two shards. */

/** 10 prompt tokens and 5 of output at the prices of the tests. */
const CHARGE = "0.00003"
const CHARGE_NANO = 30_000

const { provider, gateway, other } = await testPair({ answer: HELLO, place: await twoShards(false) })
const gateways = [gateway, other] as const

const usd = (nano: number) => printUsd(BigInt(nano))

async function called(key: string): Promise<string> {
  const answer = await chat(gateways[0], key)
  expect(answer.status).toBe(200)
  await answer.text()
  return answer.headers.get("x-request-id") ?? ""
}

/** A refund of a call, by one of the gateways. */
async function refund(account: string, call_id: string, amount: string, more: object = {}, at: 0 | 1 = 0) {
  const response = await postJson(`${gateways[at].url}/admin/accounts/${account}/credits`, ADMIN_TOKEN, {
    amount,
    call_id,
    ...more,
  })
  const body: Partial<CreditedBody> & { error?: { param: string } } = JSON.parse(await response.text())
  return { status: response.status, param: body.error?.param, kind: body.kind, id: body.id, body }
}

const seenBy = {
  operator: async (id: string) => (await gateways[1].admin<CallBody>("GET", `/calls/${id}`)).refunded,
  customer: async (id: string, key: string) =>
    (await gateways[1].own<Receipt>(`/v1/calls/${id}`, key)).refunded,
}

test("D106 refunds of a call at the same moment are at most its charge together, and its receipts show them", async () => {
  const { id: account, key } = await gateways[0].account("1")
  const call = await called(key)
  expect([await seenBy.operator(call), await seenBy.customer(call, key)]).toEqual(["0", "0"])
  const amounts = Array.from({ length: 24 }, (_, at) => 1_000 + 400 * at)
  const answers = await Promise.all(
    amounts.map((nano, at) => refund(account, call, usd(nano), {}, at % 2 === 0 ? 0 : 1)),
  )
  const refunded = answers.reduce((sum, { status }, at) => sum + (status === 201 ? (amounts[at] ?? 0) : 0), 0)
  const refused = amounts.filter((_, at) => answers[at]?.status === 400)
  expect(refused.length).toBeGreaterThan(0)
  expect(refunded).toBeLessThanOrEqual(CHARGE_NANO)
  // Each that was refused did not fit.
  expect(Math.min(...refused) + refunded).toBeGreaterThan(CHARGE_NANO)
  const rest = CHARGE_NANO - refunded
  if (rest > 0) expect(await refund(account, call, usd(rest))).toMatchObject({ status: 201, kind: "refund" })
  expect(await refund(account, call, "0.000000001")).toMatchObject({ status: 400, param: "amount" })
  expect([await seenBy.operator(call), await seenBy.customer(call, key)]).toEqual([CHARGE, CHARGE])
  expect((await gateways[1].balance(account)).balance).toBe("1")
})

test("D106 only an ended call of the account can be refunded, once for an id", async () => {
  const { id: account, key } = await gateways[0].account("1")
  const { id: stranger } = await gateways[0].account("1")
  const call = await called(key)
  const gate = heldBack(HELLO)
  provider.replyOnce(gate.held)
  const asked = provider.requests.length + 1
  const answering = chat(gateways[0], key)
  await provider.exchange(asked)
  const { data } = await gateways[0].admin<{ data: CallBody[] }>(
    "GET",
    `/calls?account=${account}&state=open`,
  )
  const refused = { status: 400, param: "call_id" }
  expect(await refund(account, data[0]?.id ?? "", "0.00001")).toMatchObject(refused)
  gate.release()
  await (await answering).text()
  expect(await refund(stranger, call, "0.00001")).toMatchObject(refused)
  expect(await refund(account, nextId(), "0.00001")).toMatchObject(refused)
  expect(await refund(account, "x", "0.00001")).toMatchObject(refused)
  expect(await refund(account, call, "-0.00001")).toMatchObject(refused)
  expect(await refund(account, call, "0.00001", { kind: "payment" })).toMatchObject({
    status: 400,
    param: "kind",
  })
  const id = nextId()
  expect(await refund(account, call, "0.00002", { id })).toMatchObject({ status: 201, kind: "refund" })
  expect(await refund(account, call, "0.00002", { id }, 1)).toMatchObject({ status: 200, id })
  expect(await refund(account, await called(key), "0.00002", { id })).toMatchObject({
    status: 400,
    param: "id",
  })
  // A voided refund is not a refund of the call.
  await gateways[0].admin("POST", `/credits/${id}/void`, {})
  expect(await seenBy.customer(call, key)).toBe("0")
  expect(await refund(account, call, CHARGE)).toMatchObject({ status: 201 })
})

test("D106 a call of an account that has moved to another shard is refunded there, still at most its charge", async () => {
  const { id: account, key } = await gateways[0].account("1")
  const call = await called(key)
  const moveTo = (to: string) =>
    untilIs(() => gateways[0].admin<MoveBody>("POST", `/accounts/${account}/move`, { to }), { step: "done" })
  expect(await refund(account, call, "0.00001")).toMatchObject({ status: 201 })
  await moveTo("b")
  expect(await refund(account, call, "0.000020001")).toMatchObject({ status: 400, param: "amount" })
  expect(await refund(account, call, "0.000015")).toMatchObject({ status: 201 })
  await moveTo("a")
  expect(await refund(account, call, "0.000005001")).toMatchObject({ status: 400, param: "amount" })
  expect(await refund(account, call, "0.000005")).toMatchObject({ status: 201 })
  expect([await seenBy.operator(call), await seenBy.customer(call, key)]).toEqual([CHARGE, CHARGE])
  expect((await gateways[1].balance(account)).balance).toBe("1")
})

import { expect, test } from "bun:test"
import { ADMIN_TOKEN, chat, until } from "../support/gateway.ts"
import { json } from "../support/provider.ts"
import { testGateway } from "../support/test-gateway.ts"

/** D96: a gateway writes alerts about its upstreams, the provider's refusals and its accounts. */

const { provider, gateway } = await testGateway()

async function alerts(): Promise<string[]> {
  const types = "tollgate.balance.low,tollgate.upstream.down,tollgate.upstream.account_refused"
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }
  const text = await (await fetch(`${gateway.url}/admin/events?types=${types}`, { headers })).text()
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line))
    .map(({ type, subject }: { type: string; subject: string }) => `${type} ${subject}`)
}

test("D96: an account that the provider refuses, an upstream that is down, and a low balance", async () => {
  const { key, id } = await gateway.account("1")
  await gateway.admin("PATCH", `/accounts/${id}`, { low_balance: "2" })
  provider.reply(json(402, { error: { message: "Insufficient balance", code: "insufficient_quota" } }))
  await (await chat(gateway, key)).bytes()
  const wanted = [`tollgate.balance.low ${id}`, "tollgate.upstream.account_refused upstream"]
  await until(alerts, (told) => told.length >= wanted.length)
  expect((await alerts()).map((told) => told.replace(/(?<=refused ).*/, "upstream")).toSorted()).toEqual(
    wanted,
  )
  await provider.stop()
  for (let call = 0; call < 5; call += 1) await (await chat(gateway, key)).bytes()
  await until(alerts, (told) => told.some((one) => one.startsWith("tollgate.upstream.down ")))
})

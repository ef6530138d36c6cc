import { expect, test } from "bun:test"
import type { StatedMonth, StatementBody } from "../../src/wire/statement.ts"
import { ADMIN_TOKEN, chat } from "../support/gateway.ts"
import { chatCompletion, json, usage } from "../support/provider.ts"
import { testGateway } from "../support/test-gateway.ts"

const { gateway } = await testGateway({}, json(200, chatCompletion("hello there", { usage: usage(10, 5) })))

const MONTH = new Date().toISOString().slice(0, 7)

const read = (path: string, key: string, headers = {}) =>
  fetch(`${gateway.url}/v1/statements${path}`, { headers: { authorization: `Bearer ${key}`, ...headers } })

test("D104, D106 a customer's statement is the operator's, and shows no multiplier, upstream or cost", async () => {
  const { id, key } = await gateway.account("10")
  await gateway.admin("PATCH", `/accounts/${id}`, { price_multiplier: "1.7", name: "<b>Acme</b>" })
  await gateway.admin("POST", `/accounts/${id}/credits`, { amount: "-1", kind: "correction" })
  const answer = await chat(gateway, key, { max_tokens: 5 })
  await answer.text()
  const listed: { data: StatedMonth[] } = JSON.parse(await (await read("", key)).text())
  expect(listed.data).toEqual([{ month: MONTH, is_final: false }])

  const text = await (await read(`/${MONTH}`, key)).text()
  const own: StatementBody = JSON.parse(text)
  const { to: _, ...theirs } = await gateway.admin<StatementBody>(
    "GET",
    `/accounts/${id}/statements/${MONTH}`,
  )
  expect(own).toMatchObject(theirs)
  expect(own).toMatchObject({ credited: "9", charged: "0.000051", closing: "8.999949" })
  expect(text).not.toMatch(/multiplier|upstream|cost|profit|"1\.7/)

  const page = await read(`/${MONTH}`, key, { accept: "text/html,*/*;q=0.8" })
  expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8")
  expect(page.headers.get("content-security-policy")).toContain("default-src 'none'")
  expect(page.headers.get("cache-control")).toBe("no-store")
  const html = await page.text()
  expect(html).toContain("&lt;b&gt;Acme&lt;/b&gt;")
  expect(html).toContain("8.999949")

  const lines = (await (await read(`/${MONTH}?format=csv`, key)).text()).trim().split("\n")
  expect(lines[0]).toStartWith("account_id,account_name,month,line,of,amount,currency,count")
  expect(lines[1]).toStartWith(`${id},<b>Acme</b>,${MONTH},opening,,0,USD`)
  const nano = lines.slice(1).map((line) => Math.round(Number(line.split(",")[5]) * 1e9))
  expect(nano.slice(0, -1).reduce((sum, one) => sum + one, 0)).toBe(nano.at(-1) ?? 0)
  const operators = await fetch(`${gateway.url}/admin/accounts/${id}/statements/${MONTH}?format=html`, {
    headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
  })
  expect(await operators.text()).toContain("8.999949")
})

test("D104 no key reads the statement of another account or of a month that has not begun", async () => {
  const [{ key }, other] = [await gateway.account("1"), await gateway.account("3")]
  const own: StatementBody = JSON.parse(await (await read(`/${MONTH}`, key)).text())
  expect(own.credited).toBe("1")
  expect(JSON.stringify(own)).not.toContain(other.id)
  expect((await read("/2999-01", key)).status).toBe(404)
  for (const month of ["2026-13", "Nov-2026"]) {
    const refused = await read(`/${month}`, key)
    expect([refused.status, JSON.parse(await refused.text()).error]).toMatchObject([
      400,
      { code: "invalid_request", message: "`month`: expected a month such as 2026-11.", param: "month" },
    ])
  }
  expect((await read(`/${MONTH}?format=pdf`, key)).status).toBe(400)
  expect((await read(`/${MONTH}`, "tg_live_wrong")).status).toBe(401)
})

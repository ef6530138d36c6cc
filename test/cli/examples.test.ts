import { afterAll, describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { drizzle } from "drizzle-orm/postgres-js"
import { root } from "../../src/cli/program.ts"
import { JOURNAL_TABLES } from "../../src/ledger/archive/months.ts"
import { sealMonth } from "../../src/ledger/archive/seals.ts"
import { ADMIN_TOKEN, CHAT, chat, configFor, PRICE } from "../support/gateway.ts"
import { HELLO } from "../support/provider.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import { testGateway } from "../support/test-gateway.ts"
import { leaves, Shell, type, wordsOf } from "./command.ts"

const { provider, gateway } = await testGateway({}, HELLO)
const way = await DatabaseProxy.start(gateway.address)
const shell = new Shell({ TOLLGATE_URL: gateway.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN })
writeFileSync(join(shell.folder, "tollgate.yaml"), JSON.stringify(configFor(provider.url)))
writeFileSync(join(shell.folder, "litellm.json"), JSON.stringify(liteLlm()))
writeFileSync(join(shell.folder, "genai.json"), JSON.stringify(genaiPrices()))
writeFileSync(
  join(shell.folder, "prices.json"),
  JSON.stringify([{ model: CHAT, prices: { input: "0.2", output: "1.6" } }]),
)
writeFileSync(join(shell.folder, "usage.json"), JSON.stringify(openAiUsage()))
await detachedMonth()
const account = await gateway.account("10")
const key = account.key
const call = (await chat(gateway, key)).headers.get("x-request-id") ?? ""
afterAll(() => way.stop())

/** October 2024, without calls, as it is when it was kept long enough (D75). */
async function detachedMonth(): Promise<void> {
  const client = gateway.sql
  await client`INSERT INTO tollgate.months (month, to_id) VALUES ('2024-10-01', tollgate.month_id('2024-11-01'))`
  for (const table of JOURNAL_TABLES)
    await client.unsafe(`CREATE TABLE tollgate.${table}_2024_10 (LIKE tollgate.${table})`)
  expect(await sealMonth(drizzle(client), () => false)).toEqual({ month: "2024-10-01", sealed: "sealed" })
  await client.begin(async (tx) => {
    await tx`SET LOCAL session_replication_role = replica`
    await tx`UPDATE tollgate.seals SET sealed_at = '2024-11-08'`
    await tx`UPDATE tollgate.months SET detached_at = now() WHERE month = '2024-10-01'`
  })
}

/** The prices of the configuration, as LiteLLM lists them. */
function liteLlm() {
  const { input, cached_input, output } = PRICE
  const entry = {
    input_cost_per_token: Number(`${input}e-6`),
    cache_read_input_token_cost: Number(`${cached_input}e-6`),
    output_cost_per_token: Number(`${output}e-6`),
  }
  return { "upstream-model": entry, "upstream-counter": entry }
}

/** An hour of OpenAI's usage API, by model: without usage, because there are no calls of ours either. */
function openAiUsage() {
  return { data: [{ start_time: 1_763_629_200, end_time: 1_763_632_800, results: [] }] }
}

/** The same, as genai-prices lists them. */
function genaiPrices() {
  const { input, cached_input, output } = PRICE
  const prices = {
    input_mtok: Number(input),
    cache_read_mtok: Number(cached_input),
    output_mtok: Number(output),
  }
  return [{ id: "openai", models: ["gpt-5-mini", "upstream-counter"].map((id) => ({ id, prices })) }]
}

/**
 * These become or start another process, write a file, never end, or need two shards or the sums of the archived month, and have tests
 * of their own below, in serve.test.ts, finance.test.ts, events.test.ts and in test/http/moves.test.ts.
 */
const ELSEWHERE = /^tollgate (?:serve|bench|completion|accounts move|trial-balance)\b|--follow/
const all = leaves(root).flatMap(({ examples }) => Object.keys(examples))

const BUDGET = { name: "All calls", selector: "all", amount: "1", per: "day" }

/** An account called Acme, a key and a budget of it for each example alone, under a name that no other has. */
async function prepared(line: string): Promise<string> {
  const name = `Acme-${crypto.randomUUID()}`
  const { id, key: own_key, key_id } = await gateway.account("1")
  const { id: budget_id } = await gateway.admin<{ id: string }>("POST", `/accounts/${id}/budgets`, BUDGET)
  const price = { price_multiplier: "0.9" }
  const { id: price_id } = await gateway.admin<{ id: string }>("POST", `/accounts/${id}/prices`, price)
  const opened = line.includes("accounts create")
  if (!opened) await gateway.admin("PATCH", `/accounts/${id}`, { name })
  if (line.includes("ann@example.com")) {
    await (await chat(gateway, own_key, { user: "ann@example.com" })).bytes()
  }
  if (line.startsWith("tollgate sinks")) return withSink(line)
  if (line.startsWith("tollgate operators")) return withOperator(line)
  const own_call = line.includes("--call ")
    ? (await chat(gateway, own_key)).headers.get("x-request-id")
    : null
  if (line.startsWith("tollgate price-lists")) return withList(line, id)
  const grant = { amount: "1" }
  const { id: credit_id } = await gateway.admin<{ id: string }>("POST", `/accounts/${id}/credits`, grant)
  return line
    .replaceAll(/019f8b1c-1111\S+/g, credit_id)
    .replaceAll("Acme Ltd", `${name} Ltd`)
    .replaceAll(/\bAcme\b(?! Ltd|-)/g, name)
    .replaceAll(/019f8b1c-2222\S+/g, key_id)
    .replaceAll(/019f8b1c-6666\S+/g, budget_id)
    .replaceAll(/019f8b1c-7777\S+/g, price_id)
    .replaceAll(/019f8b1c-3333\S+/g, own_call ?? call)
    .replace("--model demo-small --prices", `--model ${CHAT} --prices`)
    .replace("usage.json", join(shell.folder, "usage.json"))
    .replace("model_prices_and_context_window.json", join(shell.folder, "litellm.json"))
    .replace("data.json --map fast=", `${join(shell.folder, "genai.json")} --map ${CHAT}=`)
    .replace("--html statement.html", `--html ${join(shell.folder, "statement.html")}`)
    .replace("--to 2024-10.gz", `--to ${join(shell.folder, "2024-10.gz")}`)
    .replace("--config tollgate.yaml", `--config ${join(shell.folder, "tollgate.yaml")}`)
}

/** An operator for each example alone, unless it makes one. */
async function withOperator(line: string): Promise<string> {
  const name = `operator-${crypto.randomUUID()}`
  if (!line.includes("create")) await gateway.admin("POST", "/operators", { name, role: "read" })
  return line.replace(/(?<=create )\S+|\bAnn\b/, name)
}

/** A price list that the account has, for each example alone, unless it makes one. */
async function withList(line: string, account_id: string): Promise<string> {
  const name = `list-${crypto.randomUUID()}`
  const prices = [{ price_multiplier: "0.9" }]
  const made = line.includes("create")
    ? null
    : await gateway.admin<{ id: string }>("POST", "/price-lists", { name, prices })
  const path = `/price-lists/${made?.id}/assignments`
  const assigned = made && (await gateway.admin<{ id: string }>("POST", path, { account_id }))
  return line
    .replace(/Partners|Resellers/, name)
    .replace("Acme", account_id)
    .replace(/019f8b1c-9999\S+/, assigned?.id ?? "")
    .replace("prices.json", join(shell.folder, "prices.json"))
}

/** A sink for each example alone, unless it makes one. */
async function withSink(line: string): Promise<string> {
  const name = `sink-${crypto.randomUUID()}`
  if (!line.includes("create"))
    await gateway.admin("POST", "/sinks", { name, url: "https://billing.example.com/tollgate" })
  const file = join(shell.folder, "stripe.token")
  writeFileSync(file, "rk_test_1\n")
  // No real vendor is asked.
  const own = line
    .replace("api.stripe.com", "127.0.0.1:1")
    .replace("/run/secrets/stripe", `${file} --allow-private`)
  return own.replace(/(?<=create )\S+|billing$|billing(?= --)/, name)
}

describe("every example of --help works when typed", () => {
  test.each(all.filter((line) => !ELSEWHERE.test(line)))("%s", async (line) => {
    const [words = []] = wordsOf([await prepared(line)], {})
    const said = await type(words, {
      TOLLGATE_URL: gateway.url,
      TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN,
      TOLLGATE_CONFIG: join(shell.folder, "tollgate.yaml"),
      DATABASE_URL: way.address.url,
      PORT: "0",
    })
    expect(said).toMatchObject({ code: 0 })
    expect(said.out).not.toBe("")
    if (line.includes("--json")) expect(() => JSON.parse(said.out)).not.toThrow()
  })

  test.each(all.filter((line) => line.startsWith("tollgate completion")))("%s", async (line) => {
    // Without the redirection, which is the shell's.
    const [words = []] = wordsOf([line.replace(/ > .*/, "")], {})
    const { code, out, err } = await type(words)
    expect({ code, err }).toEqual({ code: 0, err: "" })
    expect(out).toContain("complet")
  })

  test("tollgate bench: hands over every word", async () => {
    const [help = "", load = ""] = all.filter((line) => line.startsWith("tollgate bench"))
    expect(await shell.run(help)).toMatchObject({ code: 0, out: expect.stringContaining("bun run bench") })
    expect(await shell.run(`${load} --only nothing`)).toMatchObject({
      code: 1,
      err: expect.stringContaining("--only: expected one of json-128"),
    })
  })
})

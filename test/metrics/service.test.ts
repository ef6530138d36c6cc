import { describe, expect, test } from "bun:test"
import { chatDraft, countDraft, testHarness } from "../http/harness.ts"
import { patiently } from "../ledger/test-database.ts"
import { CHAT, startGateway, type TestGateway, until, untilIs } from "../support/gateway.ts"
import { chatCompletion, chatWords, json, sse, usage } from "../support/provider.ts"
import { parseExposition } from "./exposition.ts"

const harness = await testHarness({
  limits: { per_key: { requests_per_minute: 3 } },
  idempotency: { keep_answers: "1m" },
})
const account = await harness.account()
// A call that a busy machine refuses is counted otherwise.
patiently()

/** The sum of the samples that have these labels; null when there is none. */
async function read(
  name: string,
  labels: Readonly<Record<string, string>> = {},
  gateway: TestGateway = harness.gateway,
): Promise<number | null> {
  const families = parseExposition(await gateway.metrics())
  const samples = families
    .flatMap((family) => family.samples)
    .filter((sample) => sample.name === name)
    .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
  return samples.length === 0 ? null : samples.reduce((sum, { value }) => sum + value, 0)
}

describe("D53 what only this gateway knows, as a scrape of a gateway that runs shows it", () => {
  test("it is ready, and nothing is in the spool or in a queue", async () => {
    expect(await read("tollgate_ready")).toBe(1)
    expect(await read("tollgate_spool_ends")).toBe(0)
    expect(await read("tollgate_ledger_queue_depth")).toBe(0)
  })

  test("the last audit, once there was one", async () => {
    expect(await read("tollgate_audit_violations")).toBeNull()
    const before_s = Date.now() / 1_000 - 60
    await harness.gateway.audit()
    expect(await read("tollgate_audit_violations")).toBe(0)
    expect(await read("tollgate_audit_timestamp_seconds")).toBeGreaterThan(before_s)
  })

  test("D95 the grants of the whole ledger, as the database had them at the start and each minute", async () => {
    const { gateway, provider } = harness
    const { id } = await harness.account("0")
    const credit = (amount: string, dates: object) =>
      gateway.admin<{ id: string }>("POST", `/accounts/${id}/credits`, { amount, ...dates })
    await credit("3", { expires_at: "2999-01-01T00:00:00Z" })
    await credit("5", { priority: 90 })
    const wrong = await credit("7", { effective_at: "2998-01-01T00:00:00Z" })
    await gateway.admin("POST", `/credits/${wrong.id}/void`, {})
    const shard = [{ name: "main", open: true, address: gateway.address }] as const
    const later = await startGateway(provider, {}, null, shard)
    const sum = (part: string) => read("tollgate_grants_nano_usd", { part }, later)
    await until(
      () => read("tollgate_grants_open", {}, later),
      (open) => open !== null,
    )
    expect(await read("tollgate_grants_open", {}, later)).toBe(2)
    expect([await sum("left"), await sum("voided"), await sum("expired")]).toEqual([8e9, 7e9, 0])
    await later.stop()
  })

  test("D100, D110 the accounts with prices of their own or of a list that hold now, and holds that met a change", async () => {
    const { gateway, provider } = harness
    const [one, two, ended] = await Promise.all([1, 2, 3].map(() => harness.account()))
    if (one === undefined || two === undefined || ended === undefined) throw new Error("no accounts")
    const price = (id: string, fields: object) =>
      gateway.admin<{ id: string }>("POST", `/accounts/${id}/prices`, { price_multiplier: "0.9", ...fields })
    const prices = { model: CHAT, prices: { input: "2" } }
    const list = await gateway.admin<{ id: string }>("POST", "/price-lists", {
      name: "One",
      prices: [prices],
    })
    const before = (await read("tollgate_price_changes_met_total")) ?? 0
    await harness.chat(one.key)
    for (const { id } of [one, two])
      await gateway.admin("POST", `/price-lists/${list.id}/assignments`, { account_id: id })
    await harness.chat(one.key)
    expect(await read("tollgate_price_changes_met_total")).toBe(before + 1)
    await price(one.id, {})
    await price(two.id, { from: "2999-01-01T00:00:00Z" })
    await gateway.admin("POST", `/prices/${(await price(ended.id, {})).id}/end`, {})
    const shard = [{ name: "main", open: true, address: gateway.address }] as const
    const later = await startGateway(provider, {}, null, shard)
    const priced = (origin: string) => read("tollgate_priced_accounts", { origin }, later)
    await until(
      () => priced("account"),
      (count) => count !== null,
    )
    expect([await priced("account"), await priced("price_list")]).toEqual([1, 2])
    await later.stop()
  })

  test("D38 a key that asks too much, by the limit that it met; D15 every error by its code", async () => {
    const hasty = await harness.account()
    for (let request = 0; request < 5; request++) await harness.chat(hasty.key)
    expect(await read("tollgate_key_limit_refusals_total", { limit: "requests_per_minute" })).toBe(2)
    const limited = { route: "/v1/chat/completions", code: "rate_limited" }
    expect(await read("tollgate_errors_total", limited)).toBe(2)
    await harness.ask({ ...chatDraft(account.key), target: "/nowhere" })
    expect(await read("tollgate_errors_total", { route: "unknown", code: "not_found" })).toBe(1)
  })

  test("D43 repeats, whether they are refused or told the kept answer", async () => {
    const { key } = await harness.account()
    const header = ["idempotency-key: once"]
    const before = await read("gen_ai_client_operation_duration_seconds_count")
    for (let request = 0; request < 3; request++) await harness.chat(key, {}, header)
    expect(await read("tollgate_idempotent_repeats_total")).toBe(2)
    const after = await read("gen_ai_client_operation_duration_seconds_count")
    expect(Number(after) - Number(before)).toBe(1)
  })

  test("the latencies of a stream's tokens", async () => {
    const { key } = await harness.account()
    harness.provider.replyOnce(sse(chatWords("a", "b", "c"), { usage: usage(10, 3) }))
    await harness.chat(key, { stream: true })
    const model = { gen_ai_request_model: CHAT, gen_ai_provider_name: "first", gen_ai_operation_name: "chat" }
    expect(await read("gen_ai_server_time_to_first_token_seconds_count", model)).toBe(1)
    expect(await read("gen_ai_server_time_per_output_token_seconds_count", model)).toBe(1)
    expect(await read("tollgate_calls_ended_total", { stream: "true", ending: "completed" })).toBe(1)
  })

  test("D33 the breaker of an upstream that fails, and of no other", async () => {
    expect(await read("tollgate_upstream_breaker_open", { upstream: "counter" })).toBe(0)
    for (let failure = 0; failure < 5; failure++) {
      const { key } = await harness.account()
      harness.provider.replyOnce(json(500, {}))
      await harness.ask(countDraft(key))
    }
    expect(await read("tollgate_upstream_breaker_open", { upstream: "counter" })).toBe(1)
    expect(await read("tollgate_upstream_breaker_open", { upstream: "first" })).toBe(0)
  })

  test("what the ledger says and what the metrics say is the same money", async () => {
    const { id, key } = await harness.account("1")
    const counted = async () => [
      await read("tollgate_charged_nano_usd_total", { model: CHAT }),
      await read("tollgate_tokens_total", { model: CHAT, kind: "prompt" }),
      await read("tollgate_tokens_total", { model: CHAT, kind: "completion" }),
      await read("tollgate_calls_settled_total", { model: CHAT, operation: "chat", basis: "usage" }),
      await read("tollgate_requests_total", { route: "/v1/chat/completions", status: "200" }),
      await read("tollgate_upstream_attempt_seconds_count", { upstream: "first", outcome: "200" }),
    ]
    const before = await counted()
    harness.provider.replyOnce(json(200, chatCompletion("hello", { usage: usage(1_000, 500) })))
    await harness.chat(key)
    const { balance } = await untilIs(() => harness.gateway.balance(id), { held: "0" })
    expect(balance).toBe("0.997")
    const after = await counted()
    expect(after.map((count, at) => Number(count) - Number(before[at]))).toEqual([
      ...[3_000_000, 1_000, 500, 1, 1, 1],
    ])
  })
})

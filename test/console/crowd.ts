import { drizzle } from "drizzle-orm/postgres-js"
import { nextId } from "../../src/id.ts"
import { failures } from "../../src/wire/call.ts"
import { type Planted, plantCalls } from "../admin/admin-harness.ts"
import type { TestGateway } from "../support/gateway.ts"

const HOUR_MS = 3_600_000
const CALLS = 8
const LONG = "A customer whose name is as long as the names of some public institutions are"
const MODELS = ["gpt-5-mini", "anthropic/claude-opus-4-5-20251101", "meta-llama/Llama-4-Maverick-17B-128E"]

export interface Crowd {
  readonly account_id: string
  readonly price_list_id: string
  readonly key_id: string
  readonly key: string
  readonly budget_id: string
  readonly call_id: string
}

/** Fills every list of the console, with names and amounts as long as they can be. Balances do not fit the planted calls. */
export async function plantCrowd(gateway: TestGateway): Promise<Crowd> {
  const post = <Body>(path: string, body: object) => gateway.admin<Body>("POST", path, body)
  for (let at = 0; at < 4; at++) await post("/accounts", { name: `Customer ${at}` })
  const { id: account_id } = await post<{ id: string }>("/accounts", {
    name: LONG,
    external_id: "customer-00000000000000000118",
    credit_limit: "999999.999999999",
    low_balance: "1234.567891234",
    may_manage_keys: true,
  })
  const of = <Body>(path: string, body: object) => post<Body>(`/accounts/${account_id}/${path}`, body)
  await of("credits", {
    amount: "123456789.123456789",
    reason: "Invoice 2026-11-0000118 of the framework contract",
  })
  await of("credits", {
    amount: "25",
    kind: "promotion",
    priority: 10,
    source_ref: "pi_3QyX9eLkdIwHu7ix0aVQ2Zfd",
    expires_at: "2099-01-01T00:00:00Z",
  })
  const made = await of<{ id: string; key: string }>("keys", {
    name: "production of the search team",
    models: MODELS,
    spending_limit: { amount: "123456.789", per: "month" },
    group: "acme/search/ranking",
    labels: { team: "search", environment: "production", region: "eu-central-1" },
  })
  await of("keys", { expires_at: "2099-01-01T00:00:00Z" })
  const budget = await of<{ id: string }>("budgets", {
    name: "Search team in Europe",
    selector: "group",
    selected: "acme/search",
    amount: "123456.789123456",
    per: "month",
    timezone: "Europe/Berlin",
    thresholds: [80, 100],
  })
  await of("budgets", { name: "Rate", selector: "all", unit: "tokens", amount: "100000000", per: "minute" })
  await of("prices", { model: "chat-model", price_multiplier: "0.85", reason: "Framework contract 118" })
  await post("/sinks", {
    name: "billing_of_the_group_in_europe",
    kind: "webhook",
    url: "https://hooks.example.com/a/very/long/path/of/a/webhook",
  })
  const price_list = await post<{ id: string }>("/price-lists", {
    name: LONG,
    prices: [{ price_multiplier: "0.8765" }],
    reason: "Framework contract of the partner programme 2026-11-0000118",
  })
  await post(`/price-lists/${price_list.id}/assignments`, { account_id })
  const calls = callsOf(account_id, made.id)
  await plantRows(gateway, account_id, made.id, calls)
  return {
    account_id,
    price_list_id: price_list.id,
    key_id: made.id,
    key: made.key,
    budget_id: budget.id,
    call_id: calls[0]?.id ?? "",
  }
}

function callsOf(account_id: string, key_id: string): (Planted & { readonly id: string })[] {
  return Array.from({ length: CALLS }, (_, at) => ({
    id: nextId(),
    account_id,
    key_id,
    model: MODELS[at % MODELS.length] ?? "",
    session_id: "5f0c1a9e-0b1d-4c8e-9d57-0d5b0f8f8a11",
    amount_nano: 123_456_789_123n,
    ...(at % 7 === 0
      ? { state: "open" as const }
      : {
          ...(at % 5 === 0
            ? {
                state: "released" as const,
                basis: "none" as const,
                failure: failures[at % failures.length] ?? null,
                charge_nano: 0n,
              }
            : {
                state: "settled" as const,
                basis: "usage" as const,
                charge_nano: 98_765_432_100n + BigInt(at),
                prompt_tokens: 1_234_567,
                cached_tokens: 234_567,
                completion_tokens: 65_536,
              }),
          closed_at: new Date(Date.now() - (at * HOUR_MS) / 3),
          ttft_ms: 345,
          duration_ms: 1_234 * (at + 1),
        }),
  }))
}

async function plantRows(
  { sql }: TestGateway,
  account_id: string,
  key_id: string,
  calls: readonly (Planted & { readonly id: string })[],
): Promise<void> {
  await plantCalls(drizzle(sql), calls)
  await sql`INSERT INTO tollgate.refusals
    SELECT date_trunc('hour', now()), ${account_id}, ${key_id}, code, 222, now()
    FROM unnest(ARRAY['insufficient_balance', 'context_length_exceeded']) code`
  await sql`INSERT INTO tollgate.attempts (id, ordinal, account_id, upstream, upstream_key, failure, duration_ms, ended_at)
    SELECT id, 7, account_id, 'provider-in-europe', 'second', 'timeout', 1, now() FROM tollgate.holds LIMIT 1`
  await sql`INSERT INTO tollgate.estimates
    SELECT (now() AT TIME ZONE 'UTC')::date, ${MODELS[1] ?? ""}, 'chat', 20, 80, 20, 60, 38, 18, 20, 4, 0`
}

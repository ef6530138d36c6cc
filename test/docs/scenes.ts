import { ADMIN_TOKEN, chat, startGateway, until } from "../support/gateway.ts"
import { chatCompletion, chatWords, json, silent, sseEvent, usage } from "../support/provider.ts"
import type { Entry } from "./reference.ts"
import { type Answer, read, SCHEDULED_PRICE, type Stage, type World } from "./stage.ts"

/** How an answer comes about that no request of the operation itself brings. */
export type Scene = (stage: Stage, entry: Entry) => Promise<readonly Answer[]>

/** The same request twice: what it made is there the second time. */
const twice =
  (body: object): Scene =>
  async (stage, entry) => {
    const world = await stage.world()
    const repeated = { body: { id: crypto.randomUUID(), ...body } }
    await stage.ask(entry, world, repeated)
    return [await stage.ask(entry, world, repeated)]
  }

/** A key limited to models that are not configured sees none. */
const noModel: Scene = async (stage, entry) => [
  await stage.ask(entry, await stage.world("10", { models: ["another"] })),
]

/** A file is asked for again, by who has it. */
export const unchanged: Scene = async (stage, entry) => {
  const world = await stage.world()
  const etag = (await stage.ask(entry, world)).headers.get("etag") ?? "none"
  return [await stage.ask(entry, world, { headers: { "if-none-match": etag } })]
}

/** Of a call that runs, and of one whose client left in the middle of its stream. */
const receipts: Scene = async (stage, entry) => {
  const { gateway, provider } = stage
  const world = await stage.world()
  const receiptOf = (call_id: string) => stage.ask(entry, { ...world, call_id })
  const latest = async () => String((await gateway.calls(`?account=${world.account_id}`))[0]?.id)
  const body = { model: "gpt-5-mini", stream: true }

  const asked = provider.requests.length
  provider.replyOnce(silent())
  const running = chat(gateway, world.key, body)
  const exchange = await provider.exchange(asked + 1)
  const open = await receiptOf(await latest())
  exchange.reset()
  await (await running).bytes()

  provider.replyOnce(async ({ head, chunk, closed }) => {
    await head(200, { "content-type": "text/event-stream" })
    for (const event of chatWords("Hello").slice(0, 2)) await chunk(sseEvent(event))
    await closed
  })
  const leaving = new AbortController()
  const stream = await chat(gateway, world.key, body, { signal: leaving.signal })
  const reader = stream.body?.getReader()
  let seen = ""
  while (!seen.includes("Hello")) seen += new TextDecoder().decode((await reader?.read())?.value)
  leaving.abort()
  const left = await latest()
  await until(
    () => gateway.call(left),
    ({ state }) => state !== "open",
  )
  return [open, await receiptOf(left)]
}

/** Makes a call, and waits for its end: on a busy machine the last byte leaves when only the disk has the end (D32). */
async function endedCall({ gateway }: Stage, { key }: World): Promise<void> {
  const { headers } = await chat(gateway, key, { model: "gpt-5-mini" })
  const id = headers.get("x-request-id") ?? ""
  await until(
    () => gateway.call(id),
    ({ state }) => state !== "open",
  )
}

/** Lets the holders of the account's keys change them (D104). */
export async function letManageKeys({ gateway }: Stage, { account_id }: World): Promise<void> {
  await gateway.admin("PATCH", `/accounts/${account_id}`, { may_manage_keys: true })
}

/** By `operationId`: what a world needs before the requests that the reference shows can be answered. */
export const preparations: Readonly<Record<string, (stage: Stage, world: World) => Promise<void>>> = {
  async forgetEndUser({ gateway, provider }, { key }) {
    provider.replyOnce(json(200, chatCompletion("Hello", { usage: usage(10, 5) })))
    await chat(gateway, key, { model: "gpt-5-mini", user: "ann@example.com" })
  },
  async makeOwnKey(stage, world) {
    await letManageKeys(stage, world)
    await stage.gateway.admin("PATCH", `/keys/${world.key_id}`, { spending_limit: null })
  },
  rotateOwnKey: letManageKeys,
  async revokeOwnKey(stage, world) {
    await letManageKeys(stage, world)
    await stage.gateway.admin("POST", `/accounts/${world.account_id}/keys`, {})
  },
  // The gateway closes days once a minute.
  async checkSums({ gateway }) {
    await gateway.sql`UPDATE tollgate.summed SET hours_until = NULL, days_until = NULL`
  },
}

const NIL = "00000000-0000-0000-0000-000000000000"

/** By `operationId status`. */
export const scenes: Readonly<Record<string, Scene>> = {
  "listModels 200": noModel,
  "listModelsSlash 200": noModel,
  "listModelsCompatible 200": noModel,
  "listModelsCompatibleSlash 200": noModel,
  "getReceipt 200": receipts,
  "getQuote 200": async (stage, entry) => {
    const world = await stage.world("0.0021", {})
    const messages = [{ role: "user", content: "Say hello." }]
    const body = { model: "gpt-5-mini", messages, max_tokens: 128_000 }
    return [await stage.ask(entry, world, { body })]
  },
  "createAccount 200": twice({ name: "Acme" }),
  // The worlds of the other operations have more accounts than a page has by default.
  "listAccounts 200": async (stage, entry) => [
    await stage.ask(entry, await stage.world(), { query: { limit: "1000" } }),
  ],
  "createOperator 200": twice({ name: "Bob", role: "read" }),
  "listChanges 200": async (stage, entry) => {
    const [{ key_id }, { name, token }] = [await stage.world(), await stage.operator("support")]
    await fetch(`${stage.gateway.url}/admin/keys/${key_id}`, {
      method: "PATCH",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        "x-tollgate-reason": "Ticket 4711",
      },
      body: JSON.stringify({ suspended: true }),
    })
    return [await stage.ask(entry, await stage.world(), { query: { actor: name } })]
  },
  "createKey 200": twice({
    name: "production",
    models: ["gpt-5-mini"],
    spending_limit: { amount: "25", per: "day" },
    group: "acme/search",
  }),
  "makeOwnKey 200": async (stage, entry) => {
    const world = await stage.world("10", { models: ["gpt-5-mini"], group: "acme/search" })
    await letManageKeys(stage, world)
    const limit = { spending_limit: { amount: "25", per: "day" } }
    const repeated = { body: { id: crypto.randomUUID(), name: "production", ...limit } }
    await stage.ask(entry, world, repeated)
    return [await stage.ask(entry, world, repeated)]
  },
  "createBudget 200": twice({
    name: "Search team",
    selector: "group",
    selected: "acme/search",
    amount: "500",
    per: "month",
    thresholds: [80, 100],
  }),
  "setCustomerPrice 200": twice(SCHEDULED_PRICE),
  "createPriceList 200": twice({
    name: "Twice",
    prices: [{ model: "gpt-5-mini", prices: { input: "0.2", output: "1.6" } }, { price_multiplier: "0.9" }],
    reason: "Partner programme",
  }),
  "assignPriceList 200": async (stage, entry) => {
    const { from, until, reason } = SCHEDULED_PRICE
    const world = await stage.world()
    const { id: list_id } = await stage.gateway.admin<{ id: string }>("POST", "/price-lists", {
      name: "Assigned twice",
      prices: [{ price_multiplier: "0.9" }],
    })
    const repeated = { body: { id: crypto.randomUUID(), account_id: world.account_id, from, until, reason } }
    await stage.ask(entry, { ...world, list_id }, repeated)
    return [await stage.ask(entry, { ...world, list_id }, repeated)]
  },
  "endCustomerPrice 200": async (stage, entry) => {
    const world = await stage.world()
    const { from: _, ...current } = SCHEDULED_PRICE
    const path = `/accounts/${world.account_id}/prices`
    const { id: price_id } = await stage.gateway.admin<{ id: string }>("POST", path, current)
    return [await stage.ask(entry, { ...world, price_id }, { body: { reason: "Contract cancelled" } })]
  },
  "creditAccount 200": twice({ amount: "10", reason: "Invoice 2026-118" }),
  "audit 200": async (stage, entry) => {
    const world = await stage.world()
    const client = stage.gateway.sql
    const shift = (by: number) =>
      client`UPDATE tollgate.accounts SET balance_nano = balance_nano + ${by} WHERE id = ${world.account_id}`
    await shift(1)
    const answer = await stage.ask(entry, world)
    await shift(-1)
    return [answer]
  },
  "checkSums 200": async (stage, entry) => {
    const world = await stage.world()
    const client = stage.gateway.sql
    // No hour is over, so the gateway itself sums up nothing meanwhile.
    await client`UPDATE tollgate.summed SET hours_until = now() + interval '1 day', days_until = '2026-11-21Z'`
    await client`INSERT INTO tollgate.days (from_at, account_id, key_id, terms_id, calls, charge_nano, overage_nano, held_nano,
      prompt_tokens, cached_tokens, completion_tokens)
      SELECT '2026-11-20Z', ${NIL}, ${NIL}, 1, 1, 1, 0, 0, 1, 0, 1`
    const answer = await stage.ask(entry, world, { body: {} })
    await client`DELETE FROM tollgate.days WHERE account_id = ${NIL}`
    await client`UPDATE tollgate.summed SET hours_until = NULL, days_until = NULL`
    return [answer]
  },
  "compareEstimates 200": async (stage, entry) => {
    const client = stage.gateway.sql
    // The gateway adds its own once a minute.
    await client`DELETE FROM tollgate.estimates`
    await client`INSERT INTO tollgate.estimates
      SELECT (now() AT TIME ZONE 'UTC')::date, 'gpt-5-mini', 'chat', 20, 80, 20, 37, 30, 20, 20, 4, 0`
    const answer = await stage.ask(entry, await stage.world())
    return [answer]
  },
  // `by` also takes tags, so the reference has no list of its words.
  "sumUsage 200": async (stage, entry) => [
    await stage.ask(entry, await stage.world(), { query: { by: "account" } }),
  ],
  "listRefusals 200": async (stage, entry) => {
    const world = await stage.world()
    const client = stage.gateway.sql
    await client`INSERT INTO tollgate.refusals
      VALUES (date_trunc('hour', now()), ${world.account_id}, ${world.key_id}, 'insufficient_balance', 222, now())`
    const answer = await stage.ask(entry, world)
    return [answer]
  },
  "listAttempts 200": async (stage, entry) => {
    const world = await stage.world()
    const client = stage.gateway.sql
    await client`INSERT INTO tollgate.attempts (id, ordinal, account_id, upstream, status, failure, duration_ms, ended_at)
      SELECT h.id, x.ordinal, h.account_id, 'openai', x.status, x.failure, 1, now()
      FROM tollgate.holds h, (VALUES (100, 503, NULL), (101, NULL, 'timeout')) x (ordinal, status, failure)
      WHERE h.account_id = ${world.account_id} LIMIT 2`
    const answer = await stage.ask(entry, world)
    return [answer]
  },
  "sumForReconciliation 200": async (stage, entry) => {
    const world = await stage.world()
    await endedCall(stage, world)
    const [from, to] = [-1, 1].map((hours) => new Date(Date.now() + hours * 3_600_000).toISOString())
    return [await stage.ask(entry, world, { query: { upstream: "openai", from: from ?? "", to: to ?? "" } })]
  },
  "createSink 200": twice({ name: "twice", url: "https://billing.example.com/tollgate" }),
  "listSinks 200": async (stage, entry) => {
    // Before the sink, which has then nothing to deliver.
    const world = await stage.world()
    const client = stage.gateway.sql
    await client`UPDATE tollgate.sinks SET state = 'paused'`
    await client`DELETE FROM tollgate.sinks`
    await stage.gateway.admin("POST", "/sinks", { name: "one", url: "https://billing.example.com/tollgate" })
    return [await stage.ask(entry, world)]
  },
  "listUsageNotes 200": async (stage, entry) => {
    const world = await stage.world()
    const reported = { ...usage(10, 5), citation_tokens: 7 }
    stage.provider.replyOnce(json(200, chatCompletion("Hello", { usage: reported })))
    await endedCall(stage, world)
    return [await stage.ask(entry, world)]
  },
  "listUpstreams 200": async ({ provider, config }, entry) => {
    const { models, upstreams } = config
    const failing = await startGateway(provider, { models, upstreams })
    const keys = [(await failing.account()).key, (await failing.account()).key]
    for (let failures = 0; failures < 5; failures += 1) {
      provider.replyOnce(json(503, ""))
      await chat(failing, keys[failures % 2] ?? "", { model: "gpt-5-mini" })
    }
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }
    const answer = await read(await fetch(failing.url + entry.path, { headers }))
    await failing.stop()
    return [answer]
  },
  "getReadiness 503": async ({ provider }) => {
    const draining = await startGateway(provider, { shutdown: { ready_delay: "3s" } })
    draining.service.shutdown.signal()
    const answer = await read(await fetch(`${draining.url}/readyz`))
    await draining.exited
    await draining.remove()
    return [answer]
  },
}

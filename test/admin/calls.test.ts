import { expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import { plantCall, testAdmin } from "./admin-harness.ts"

const adminApi = await testAdmin()

const account_id = nextId()
const other_account = nextId()
const key_id = nextId()
const held_at = new Date("2026-11-21T10:00:00.000Z")
const ended_at = new Date("2026-11-21T10:00:02.500Z")

const open = {
  id: expect.any(String),
  account_id,
  key_id,
  model: "gpt-5-mini",
  operation: "chat",
  family: "chat",
  upstream: "openai",
  stream: false,
  session_id: null,
  agent_id: null,
  tags: {},
  end_user: null,
  end_user_id: null,
  state: "open",
  basis: "none",
  ending: null,
  failure: null,
  notes: [],
  held: "0.000005",
  charge: null,
  overage: null,
  cost: null as string | null,
  price_multiplier: "1",
  customer_price_id: null,
  list_prices: null,
  usage: null,
  prices: { input: "0.25", cached_input: "0.025", output: "2", per_call: "0" },
  lines: [] as object[],
  estimate: null,
  unread: [],
  unexplained_tokens: 0,
  provider_cost: null,
  upstream_key: null,
  provider_request_id: null,
  attempts: [],
  started_at: "2026-11-21T10:00:00.000Z",
  settled_at: null,
  ttft_ms: null,
  duration_ms: null,
}
const closed = { ...open, charge: "0", overage: "0", cost: "0", settled_at: "2026-11-21T10:00:02.500Z" }
const tokens = { prompt_tokens: 40, cached_tokens: 8, completion_tokens: 150 }
const lines = [
  { kind: "input", count: 32, price: "0.25", cost: "0.000008" },
  { kind: "cached_input", count: 8, price: "0.025", cost: "0.0000002" },
  { kind: "output", count: 150, price: "2", cost: "0.0003" },
]

const none = { prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0 }
const late = { ending: "completed", failure: "usage_missing", notes: ["overage"] }
const lost = { ending: "gateway_lost", failure: "gateway_lost" }
const timed = { stream: true, ttft_ms: 300, duration_ms: 2_500 }
const charged = { usage: tokens, cost: "0.0003082", lines }

/** The fields that the ledger and the answer have in common, those of the ledger alone, and those of the answer. */
const rows: readonly (readonly [what: string, both: object, planted: object, shown: object])[] = [
  [
    "settled by usage",
    { state: "settled", basis: "usage", ending: "completed", ...timed },
    { charge_nano: 4_321n, ...tokens },
    { charge: "0.000004321", ...charged },
  ],
  [
    "D2 settled by usage of 0",
    { state: "settled", basis: "usage" },
    { charge_nano: 0n, ...none },
    { usage: none },
  ],
  [
    "D11 settled above what was held",
    { state: "settled", basis: "estimate", ...late },
    { charge_nano: 5_001n },
    { charge: "0.000005001", overage: "0.000000001" },
  ],
  [
    "rule 6 released",
    { state: "released", basis: "none", ending: "completed", failure: "no_output", duration_ms: 9 },
    { charge_nano: 0n },
    {},
  ],
  [
    "D13 expired, charged by its checkpoint",
    { state: "expired", basis: "partial", ...lost },
    { charge_nano: 70n, ...tokens },
    { charge: "0.00000007", ...charged },
  ],
]

test.each([
  [
    "D13 open with a checkpoint: nothing of a charge yet",
    { checkpoint_nano: 70n, basis: "partial", ...tokens },
    open,
  ],
  ...rows.map(
    ([what, both, planted, shown]) =>
      [what, { ...both, ...planted, ended_at }, { ...closed, ...both, ...shown }] as const,
  ),
])("a call: %s", async (_, planted, expected) => {
  const id = await plantCall(adminApi.database, { id: nextId(), account_id, key_id, held_at, ...planted })
  const { status, body } = await adminApi.ask("GET", `/admin/calls/${id}`)
  expect(status).toBe(200)
  expect(body as unknown).toEqual({ ...expected, id, refunded: "0" })
  const { body: list } = await adminApi.ask("GET", "/admin/calls?limit=1")
  // A list does not look up refunds.
  expect(list.data as unknown).toEqual([{ ...expected, id }])
})

test("GET /admin/calls filters by each word and by several, from inclusive, to exclusive", async () => {
  const base = { account_id: other_account, model: "filtered" }
  const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second))
  const done = { state: "released", charge_nano: 0n, ended_at }
  const ids = {
    early: await plantCall(adminApi.database, { ...base, held_at: at(1) }),
    keyed: await plantCall(adminApi.database, { ...base, held_at: at(2), key_id }),
    empty: await plantCall(adminApi.database, { ...base, held_at: at(3), ...done, failure: "no_output" }),
    late: await plantCall(adminApi.database, { ...base, held_at: at(4), ...done, failure: "client_left" }),
    other: await plantCall(adminApi.database, { account_id: nextId(), model: "filtered", held_at: at(9) }),
  }
  const mine = [ids.late, ids.empty, ids.keyed, ids.early]
  const time = (second: number) => encodeURIComponent(at(second).toISOString())
  const cases: [string, string[]][] = [
    [`account=${other_account}`, mine],
    [`account=${other_account.toUpperCase()}`, mine],
    ["model=filtered", [ids.other, ...mine]],
    ["model=Filtered", []],
    [`account=${other_account}&key=${key_id}`, [ids.keyed]],
    [`account=${other_account}&state=open`, [ids.keyed, ids.early]],
    [`account=${other_account}&state=released`, [ids.late, ids.empty]],
    [`account=${other_account}&state=expired`, []],
    ["model=filtered&failure=no_output", [ids.empty]],
    ["model=filtered&failure=no_output&state=open", []],
    [`account=${other_account}&from=${time(2)}`, [ids.late, ids.empty, ids.keyed]],
    [`account=${other_account}&to=${time(2)}`, [ids.early]],
    [`account=${other_account}&from=${time(2)}&to=${time(4)}`, [ids.empty, ids.keyed]],
    [`account=${other_account}&from=${time(3)}&to=${time(3)}`, []],
    [`account=${other_account}&from=${time(4)}&to=${time(2)}`, []],
    [`account=${other_account}&from=2026-01-01T02:00:03%2B02:00`, [ids.late, ids.empty]],
    [`account=${other_account}&from=2026-01-01&to=2026-01-02`, mine],
    [`account=${other_account}&from=2026-01-02`, []],
    [`account=${nextId()}`, []],
  ]
  for (const [query, expected] of cases) {
    const { status, body } = await adminApi.ask("GET", `/admin/calls?${query}`)
    expect([query, status, body.data.map(({ id }) => id)]).toEqual([query, 200, expected])
  }
})

test("pages of a filtered list hold every call once, also while calls come and settle", async () => {
  const busy = nextId()
  const ids: string[] = []
  for (let at = 0; at < 12; at++) {
    ids.push(await plantCall(adminApi.database, { account_id: busy }))
    await plantCall(adminApi.database, { account_id: nextId() })
  }
  const all = ids.toReversed()
  for (const limit of [1, 5, 11, 12, 13, 1_000]) {
    expect(await adminApi.walk(`/admin/calls?account=${busy}`, limit)).toEqual(all)
  }
  const first = await adminApi.ask("GET", `/admin/calls?account=${busy}&limit=5`)
  await plantCall(adminApi.database, { account_id: busy })
  const rest = await adminApi.ask("GET", `/admin/calls?account=${busy}&after=${first.body.next}`)
  expect([...first.body.data, ...rest.body.data].map(({ id }) => id)).toEqual(all)
  expect(rest.body.next).toBeNull()
})

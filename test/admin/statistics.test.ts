import { describe, expect, test } from "bun:test"
import { mount, type Planted, plantCall, send, testAdmin } from "./admin-harness.ts"

const adminApi = await testAdmin()
const acme = await adminApi.openAccount("Acme")
const other = await adminApi.openAccount("Other")
const key = (await adminApi.ask("POST", `/admin/accounts/${acme}/keys`, { name: "production" })).body.id

const NOON = Date.parse("2026-03-01T12:00:00Z")
const at = (minutes: number) => new Date(NOON + minutes * 60_000)
const HOUR = `from=${at(0).toISOString()}&to=${at(60).toISOString()}`
const tokens = (prompt_tokens: number, completion_tokens: number) => ({ prompt_tokens, completion_tokens })
const left = { failure: "client_left", ending: "client_left" }
const free = { state: "released", basis: "none", charge_nano: 0n, failure: "no_output" }
const ended: readonly (readonly [minutes: number, call: Partial<Planted>])[] = [
  [0, { model: "small", charge_nano: 5n, ...tokens(10, 20), ttft_ms: 30, duration_ms: 90 }],
  [1.5, { model: "small", charge_nano: 6n, ...tokens(1, 2), ttft_ms: 7, duration_ms: 1_234 }],
  [59.9, { model: "large", charge_nano: 9_007_199_254_740_993n, ...tokens(3, 4), duration_ms: 90, ...left }],
  [30, { model: "tiny", ...free, duration_ms: 90, account_id: other }],
  [30, { model: "small", state: "open", charge_nano: null, prompt_tokens: 99 }],
  [-0.1, { model: "before", charge_nano: 1n }],
  [60, { model: "after", charge_nano: 1n }],
]
for (const [minutes, call] of ended) {
  const usual = { account_id: acme, key_id: key, state: "settled", basis: "usage", cached_tokens: 1 }
  await plantCall(adminApi.database, { ...usual, held_at: at(-60), ended_at: at(minutes), ...call })
}

interface Timeline {
  readonly by: string
  readonly step_s: number
  readonly starts_at: readonly string[]
  readonly data: readonly {
    readonly group: string | null
    readonly name: string | null
    readonly calls: readonly number[]
    readonly charge: readonly string[]
    readonly prompt_tokens: readonly number[]
    readonly cached_tokens: readonly number[]
    readonly completion_tokens: readonly number[]
  }[]
  readonly left_out: number
}

async function timeline(query: string): Promise<Timeline> {
  const { status, text } = await adminApi.ask("GET", `/admin/timeline?${query}`)
  expect(status).toBe(200)
  return JSON.parse(text)
}

/** The entries that are not zero, by their place. */
const filled = (list: readonly (number | string)[]) =>
  Object.fromEntries([...list.entries()].filter(([, value]) => Number(value) !== 0))

describe("D51: GET /admin/timeline", () => {
  test("sums the calls that ended in steps of a minute, by model, what cost most first", async () => {
    const { by, step_s, starts_at, data, left_out } = await timeline(HOUR)
    expect({ by, step_s, steps: starts_at.length, left_out }).toEqual({
      by: "model",
      step_s: 60,
      steps: 60,
      left_out: 0,
    })
    expect([starts_at[0], starts_at[59]]).toEqual([at(0).toISOString(), at(59).toISOString()])
    expect(data.map(({ group, name }) => [group, name])).toEqual([
      ["large", null],
      ["small", null],
      ["tiny", null],
    ])
    const [large, small, tiny] = data
    expect(filled(large?.charge ?? [])).toEqual({ 59: "9007199.254740993" })
    expect(filled(small?.charge ?? [])).toEqual({ 0: "0.000000005", 1: "0.000000006" })
    expect(filled(small?.prompt_tokens ?? [])).toEqual({ 0: 10, 1: 1 })
    expect(filled(small?.cached_tokens ?? [])).toEqual({ 0: 1, 1: 1 })
    expect(filled(small?.completion_tokens ?? [])).toEqual({ 0: 20, 1: 2 })
    expect(filled(tiny?.calls ?? [])).toEqual({ 30: 1 })
  })

  test("names keys and accounts", async () => {
    const by_key = await timeline(`${HOUR}&by=key`)
    expect(by_key.data.map(({ group, name }) => [group, name])).toEqual([[key, "Acme: production"]])
    const by_account = await timeline(`${HOUR}&by=account`)
    expect(by_account.data.map(({ group, name }) => [group, name])).toEqual([
      [acme, "Acme"],
      [other, "Other"],
    ])
  })

  test("puts all groups beyond those asked for into one, last", async () => {
    const { data, left_out } = await timeline(`${HOUR}&groups=1`)
    expect(data.map(({ group }) => group)).toEqual(["large", null])
    expect(filled(data[1]?.calls ?? [])).toEqual({ 0: 1, 1: 1, 30: 1 })
    expect(left_out).toBe(2)
  })

  test("narrows by accounts, key and model together", async () => {
    const groups = async (query: string) =>
      (await timeline(`${HOUR}&${query}`)).data.map(({ group }) => group)
    expect(await groups(`account=${other}`)).toEqual(["tiny"])
    expect(await groups(`account=${acme},${other}&model=tiny`)).toEqual(["tiny"])
    expect(await groups(`key=${acme}`)).toEqual([])
  })

  test.each([
    ["an hour", 60, 60, 60],
    ["a day", 24 * 60, 900, 96],
    ["a week", 7 * 24 * 60, 10_800, 56],
    ["thirty days", 30 * 24 * 60, 43_200, 60],
    ["ninety-two days", 92 * 24 * 60, 86_400, 93],
  ])("has a step for %s that a plot can show", async (_name, minutes, step_s, steps) => {
    const { starts_at, ...found } = await timeline(
      `from=${at(-minutes).toISOString()}&to=${at(0).toISOString()}`,
    )
    expect([found.step_s, starts_at.length]).toEqual([step_s, steps])
  })

  test("looks at the last 24 hours unless told otherwise", async () => {
    const { starts_at } = await timeline("")
    expect(Date.now() - Date.parse(starts_at[0] ?? "")).toBeWithin(86_399_000, 86_400_000 + 2 * 900_000)
  })
})

test("D51: GET /admin/latency has percentiles and buckets without gaps", async () => {
  const { text } = await adminApi.ask("GET", `/admin/latency?${HOUR}`)
  const { ttft, duration } = JSON.parse(text)
  expect(ttft).toEqual({
    calls: 2,
    p50_ms: 7,
    p90_ms: 30,
    p99_ms: 30,
    buckets: [
      { from_ms: 6, below_ms: 10, calls: 1 },
      { from_ms: 10, below_ms: 16, calls: 0 },
      { from_ms: 16, below_ms: 25, calls: 0 },
      { from_ms: 25, below_ms: 40, calls: 1 },
    ],
  })
  expect(duration).toMatchObject({ calls: 4, p50_ms: 90, p90_ms: 1_230, p99_ms: 1_230 })
  expect(duration.buckets.at(-1)).toEqual({ from_ms: 1_000, below_ms: 1_600, calls: 1 })
  const none = JSON.parse((await adminApi.ask("GET", `/admin/latency?${HOUR}&model=none`)).text)
  expect(none.ttft).toEqual({ calls: 0, p50_ms: null, p90_ms: null, p99_ms: null, buckets: [] })
})

test("D51: GET /admin/outcomes counts how calls ended, the most frequent first", async () => {
  const { text } = await adminApi.ask("GET", `/admin/outcomes?${HOUR}`)
  expect(JSON.parse(text).data).toEqual([
    { state: "settled", basis: "usage", failure: null, calls: 2, charge: "0.000000011" },
    { state: "released", basis: "none", failure: "no_output", calls: 1, charge: "0" },
    { state: "settled", basis: "usage", failure: "client_left", calls: 1, charge: "9007199.254740993" },
  ])
})

test("D51: GET /admin/upstreams shows what the processes find", async () => {
  const found = {
    name: "one",
    family: "chat",
    models: ["small"],
    worker: 2,
    state: "open",
    failures: 5,
    tries_in_ms: 1,
    accounts_skipped: 0,
    keys: [{ name: "", state: "ready", rests_ms: null }],
  }
  const app = mount({ database: adminApi.database, deadline_ms: 1_000, upstreams: async () => [found] })
  const { text } = await send(app, "GET", "/admin/upstreams")
  expect(JSON.parse(text)).toEqual({ data: [found] })
})

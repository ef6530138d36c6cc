import { beforeAll, describe, expect, test } from "bun:test"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { floorId } from "../../src/id.ts"
import { compareUsage } from "../../src/reconciliation/compared-usage.ts"
import { readUsageExport } from "../../src/reconciliation/usage-export.ts"
import type { ComparedUsage, ReconciledSums } from "../../src/wire/reconciliation.ts"
import { falsify } from "../ledger/test-database.ts"
import { testFolder } from "../support/folder.ts"
import { ADMIN_TOKEN, CHAT, chat, untilIs } from "../support/gateway.ts"
import { HELLO, json } from "../support/provider.ts"
import { testGateway } from "../support/test-gateway.ts"
import { type } from "./command.ts"

/** D98: a provider's usage export beside the journal. */

const HOUR_MS = 3_600_000
const NINE_MS = Date.parse("2026-11-20T09:00:00Z")
const LATER_MS = NINE_MS + 72 * HOUR_MS

const KEYS = ["a", "b"].map((name) => ({ name, api_key: `sk-${name}` }))
const { provider, gateway } = await testGateway(
  (provider_url) => ({
    upstreams: { openai: { family: "chat", base_url: `${provider_url}/v1`, keys: KEYS } },
    models: [
      {
        name: CHAT,
        family: "chat",
        upstreams: [{ use: "openai" }],
        price: { input: "1", cached_input: "0.1", output: "4" },
        max_output_tokens: 1000,
      },
    ],
  }),
  HELLO,
)

const folder = testFolder()
const ACCESS = { TOLLGATE_URL: gateway.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN }

/** A bucket of OpenAI's usage API, grouped by model and key. */
const openAiBucket = (start_ms: number, results: readonly object[], width_ms = HOUR_MS) => ({
  object: "bucket",
  start_time: start_ms / 1_000,
  end_time: (start_ms + width_ms) / 1_000,
  results: results.map((result) => ({
    object: "organization.usage.completions.result",
    ...{ input_tokens: 0, output_tokens: 0, input_cached_tokens: 0, num_model_requests: 0 },
    ...{ api_key_id: null, model: "gpt-5-mini-2025-08-07", batch: false, service_tier: null },
    ...result,
  })),
})
const openAiPage = (...data: readonly object[]) => ({
  object: "page",
  data,
  has_more: false,
  next_page: null,
})

/** A bucket of Anthropic's usage report. */
const anthropicPage = {
  data: [
    {
      starting_at: "2026-11-20T09:00:00Z",
      ending_at: "2026-11-20T10:00:00Z",
      results: [
        {
          uncached_input_tokens: 1_500,
          cache_creation: { ephemeral_1h_input_tokens: 1_000, ephemeral_5m_input_tokens: 500 },
          cache_read_input_tokens: 200,
          output_tokens: 500,
          server_tool_use: { web_search_requests: 10 },
          api_key_id: "apikey_01Rj2N8SVvo6BePZj99NhmiT",
          workspace_id: null,
          model: "claude-sonnet-4-20250514",
          service_tier: "standard",
          context_window: "0-200k",
        },
      ],
    },
  ],
  has_more: true,
  next_page: "page_2",
}

describe("D98 an export", () => {
  test("of OpenAI is read, one page or several; minutes are added to hours, and batches left out", () => {
    const minutes = Array.from({ length: 60 }, (_, at) =>
      openAiBucket(
        NINE_MS + at * 60_000,
        [
          { input_tokens: 10, input_cached_tokens: 4, output_tokens: 5, num_model_requests: 1 },
          { input_tokens: 900, output_tokens: 900, num_model_requests: 9, batch: true },
        ],
        60_000,
      ),
    )
    const begun = openAiBucket(NINE_MS + HOUR_MS, [], 60_000)
    const pages = [openAiPage(...minutes.slice(0, 30)), openAiPage(...minutes.slice(30), begun)]
    const read = readUsageExport("openai", pages)
    expect(read).toMatchObject({ step: "hour", from_ms: NINE_MS, has_more: false })
    expect([...(read?.covered ?? [])]).toEqual([NINE_MS])
    expect(read?.usages).toHaveLength(60)
    expect(read?.usages[59]).toEqual({
      from_ms: NINE_MS,
      model: "gpt-5-mini-2025-08-07",
      key_id: null,
      requests: 1,
      prompt_tokens: 10,
      cached_tokens: 4,
      completion_tokens: 5,
    })
  })

  const openRouterCsv = (...rows: readonly string[]) =>
    [
      "generation_id,created_at,tokens_prompt,tokens_completion,tokens_cached,model_permaslug,variant,api_key_name,app_name",
      ...rows,
    ].join("\r\n")

  test("of OpenRouter is read: requests are added up to hours, of which the first and the last are not covered", () => {
    const read = readUsageExport(
      "openrouter",
      openRouterCsv(
        'gen-1,2026-11-20 08:59:59.5,10,5,4,openai/gpt-5-mini,standard,team1,"Search, ""new"""',
        "gen-2,2026-11-20 09:10:00,20,6,,openai/gpt-5-mini,free,,x",
        "gen-3,2026-11-20T13:00:01+02:00,30,7,31,openai/gpt-5-mini,,team1,",
      ),
    )
    expect(read).toMatchObject({ step: "hour", from_ms: NINE_MS - HOUR_MS, to_ms: NINE_MS + 3 * HOUR_MS })
    expect([...(read?.covered ?? [])]).toEqual([NINE_MS, NINE_MS + HOUR_MS])
    const shown = read?.usages.map(({ from_ms, request_id, model, key_id, ...counts }) => {
      const { prompt_tokens, cached_tokens, completion_tokens } = counts
      const hour = (from_ms - NINE_MS) / HOUR_MS
      return [hour, request_id, model, key_id, prompt_tokens, cached_tokens, completion_tokens]
    })
    expect(shown).toEqual([
      [-1, "gen-1", "openai/gpt-5-mini", "team1", 10, 4, 5],
      [0, "gen-2", "openai/gpt-5-mini:free", null, 20, 0, 6],
      [2, "gen-3", "openai/gpt-5-mini", "team1", 30, 30, 7],
    ])
  })

  test.each([
    "gen-1,yesterday,10,5,4,m,,,",
    "gen-1,2026-11-20 09:00:00,-10,5,4,m,,,",
    "gen-1,2026-11-20 09:00:00,10,5,4,,,,",
    "gen-1,2026-11-20 09:00:00,10",
    'gen-1,2026-11-20 09:00:00,10,5,4,m,,,"x',
  ])("of OpenRouter is refused with a row such as %p", (row) => {
    expect(readUsageExport("openrouter", openRouterCsv(row))).toBeNull()
  })

  const openRouterDay = (date: string, changes: object = {}) => ({
    ...{ date, model: "openai/gpt-5-mini", endpoint_id: "550e8400" },
    ...{ model_permaslug: "openai/gpt-5-mini-2025-08-07" },
    ...{ provider_name: "OpenAI", usage: 0.015, byok_usage_inference: 0, requests: 10, reasoning_tokens: 25 },
    ...{ prompt_tokens: 1_000, completion_tokens: 500, ...changes },
  })

  test("of OpenRouter by days is read; days that it does not name have no data, and cached tokens no price of their own", async () => {
    const [day, third] = ["2026-11-20", "2026-11-22"]
    const page = { data: [openRouterDay(day), openRouterDay(third, { requests: 4 })] }
    const read = readUsageExport("openrouter", page)
    if (read === null) throw new Error("it was not read")
    const day_ms = 24 * HOUR_MS
    const from_ms = Date.parse(day)
    expect(read).toMatchObject({ step: "day", from_ms, to_ms: from_ms + 3 * day_ms, has_cached: false })
    expect([...read.covered]).toEqual([from_ms, from_ms + 2 * day_ms])
    expect(read.usages).toMatchObject([
      { model: "openai/gpt-5-mini-2025-08-07", requests: 10, prompt_tokens: 1_000, completion_tokens: 500 },
      { requests: 4 },
    ])
    const own = sums({ from: new Date(from_ms).toISOString(), cached_tokens: 900 })
    const names = { modelOf: () => "gpt-5-mini", keyOf: null }
    const [row] = (await compareUsage(read, [own], names, LATER_MS + 10 * day_ms)).rows
    expect(row).toMatchObject({ state: "compared", difference: "0", theirs: { cost: "0.003" } })
  })

  test.each([
    { date: "yesterday" },
    { date: "2026-13-01" },
    { model_permaslug: "" },
    { prompt_tokens: -1 },
    { requests: null },
  ])("of OpenRouter by days is refused with %p", (changes) => {
    const page = { data: [openRouterDay("2026-11-20", changes)] }
    expect(readUsageExport("openrouter", page)).toBeNull()
  })

  test("of Anthropic is read: read and written cache is a part of the prompt, and requests are not counted", () => {
    const read = readUsageExport("anthropic", anthropicPage)
    expect(read?.usages).toEqual([
      {
        from_ms: NINE_MS,
        model: "claude-sonnet-4-20250514",
        key_id: "apikey_01Rj2N8SVvo6BePZj99NhmiT",
        requests: null,
        prompt_tokens: 3_200,
        cached_tokens: 200,
        completion_tokens: 500,
      },
    ])
    expect(read?.has_more).toBe(true)
  })

  test.each([
    ["no JSON", "usage"],
    ["another provider's", anthropicPage],
    [
      "costs",
      openAiPage({ ...openAiBucket(NINE_MS, []), results: [{ object: "organization.costs.result" }] }),
    ],
    ["not grouped by model", openAiPage(openAiBucket(NINE_MS, [{ model: null }]))],
    [
      "of embeddings beside completions",
      [
        openAiPage(openAiBucket(NINE_MS, [{}])),
        openAiPage(openAiBucket(NINE_MS, [{ object: "organization.usage.embeddings.result" }])),
      ],
    ],
    ["no bucket", openAiPage()],
  ])("%s is refused", (_, text) => {
    expect(readUsageExport("openai", text)).toBeNull()
  })
})

const NONE = { calls: 0, prompt_tokens: 0, completion_tokens: 0 }
/** 10 calls of 100 and 50 tokens, at 1 and 4 USD per million: 0.003 USD, and 0.0003 for each. */
const sums = (changes: Partial<ReconciledSums> = {}): ReconciledSums => ({
  from: new Date(NINE_MS).toISOString(),
  model: "gpt-5-mini",
  operation: "chat",
  upstream_key: null,
  calls: 10,
  prompt_tokens: 1_000,
  cached_tokens: 0,
  completion_tokens: 500,
  cost: "0.003",
  prices: { input: "1", cached_input: "0.1", output: "4" },
  attempts: 0,
  estimated: NONE,
  cut: NONE,
  boundary: NONE,
  ...changes,
})

/** 100 output tokens more than ours. */
const MORE = [1_000, 600, 10]
const BOTH = { attempts: "0.0003", estimates: "0.0001" }

describe("D98 a difference is explained", () => {
  const agreed = { input_tokens: 1_000, output_tokens: 500, num_model_requests: 10 }
  const one = { calls: 1, prompt_tokens: 100, completion_tokens: 50 }
  /** What the provider reports (input tokens, output tokens, calls, cached tokens), our calls, the explained amounts, and the rest. */
  const rows: readonly [
    what: string,
    theirs: readonly number[],
    ours: Partial<ReconciledSums>,
    explained: object,
    rest: string,
  ][] = [
    ["by nothing, where there is none", [1_000, 500, 10], {}, {}, "0"],
    ["by nothing", [1_100, 500, 10], {}, {}, "0.0001"],
    ["by nothing, where ours is more", [900, 500, 10], {}, {}, "-0.0001"],
    ["by attempts", [1_100, 500, 11], { attempts: 1 }, { attempts: "0.0001" }, "0"],
    ["by attempts, up to a call for each", MORE, { attempts: 1 }, { attempts: "0.0003" }, "0.0001"],
    ["not by attempts, where ours is more", [900, 500, 10], { attempts: 1 }, {}, "-0.0001"],
    ["by estimates, up to their tokens", MORE, { estimated: one }, { estimates: "0.0003" }, "0.0001"],
    [
      "by estimates, where ours is more",
      [1_000, 460, 10],
      { estimated: one },
      { estimates: "-0.00016" },
      "0",
    ],
    ["by attempts before estimates", MORE, { attempts: 1, estimated: one }, BOTH, "0"],
    ["by calls that were cut", [1_000, 550, 10], { cut: { ...NONE, calls: 1 } }, { cut: "0.0002" }, "0"],
    ["by calls at the bounds of the hour", [900, 500, 10], { boundary: one }, { boundary: "-0.0001" }, "0"],
    ["by calls from elsewhere", [2_000, 1_000, 20], {}, { elsewhere: "0.003" }, "0"],
    [
      "by part of the calls from elsewhere",
      [1_200, 1_000, 11],
      {},
      { elsewhere: "0.000472727" },
      "0.001727272",
    ],
    ["at the prices of cached input", [1_000, 500, 10, 1_000], {}, {}, "-0.0009"],
  ]
  test.each(rows)("%s", async (_, [input, output, calls, cached = 0], ours, explained, rest) => {
    const counts = { input_tokens: input, output_tokens: output, num_model_requests: calls }
    const bucket = openAiBucket(NINE_MS, [{ ...counts, input_cached_tokens: cached }])
    const result = await compare([bucket], [sums(ours)])
    const none = { attempts: "0", estimates: "0", cut: "0", boundary: "0", elsewhere: "0" }
    expect(result.rows).toHaveLength(1)
    expect(result.rows[0]).toMatchObject({
      state: "compared",
      explained: { ...none, ...explained },
      unexplained: rest,
    })
  })

  test.each([
    [
      "embeddings",
      { object: "organization.usage.embeddings.result", input_tokens: 70, num_model_requests: 7 },
    ],
    ["other calls", agreed],
  ])("among %s only, if the export is of them", async (_, theirs) => {
    const embedded = { calls: 7, prompt_tokens: 70, completion_tokens: 0 }
    const { rows, unmatched } = await compare(
      [openAiBucket(NINE_MS, [theirs])],
      [sums(), sums({ operation: "embeddings", ...embedded })],
    )
    expect(rows.map(({ ours }) => ours?.calls)).toEqual([theirs.num_model_requests])
    expect(unmatched).toBe("0")
  })

  test("by calls at the bounds of the hours beside it", async () => {
    const next = new Date(NINE_MS + HOUR_MS).toISOString()
    const boundary = { calls: 1, prompt_tokens: 100, completion_tokens: 50 }
    const { rows } = await compare(
      [
        openAiBucket(NINE_MS, [{ ...agreed, input_tokens: 1_100 }]),
        openAiBucket(NINE_MS + HOUR_MS, [{ ...agreed, input_tokens: 900 }]),
      ],
      [sums(), sums({ from: next, boundary })],
    )
    expect(rows.map(({ unexplained }) => unexplained)).toEqual(["0", "0"])
  })

  test("only where there is something to compare: not without data, not for 24 hours, not without a price", async () => {
    const at = (hour: number) => new Date(NINE_MS + hour * HOUR_MS).toISOString()
    const { rows, unexplained } = await compare(
      [
        openAiBucket(NINE_MS, [agreed, { ...agreed, model: "gpt-9" }]),
        openAiBucket(NINE_MS + 2 * HOUR_MS, []),
        openAiBucket(LATER_MS - 24 * HOUR_MS, [{ input_tokens: 7 }]),
      ],
      [sums(), sums({ from: at(1) }), sums({ from: at(2) })],
    )
    expect(rows.map(({ from, model, state, theirs }) => [from, model, state, theirs?.prompt_tokens])).toEqual(
      [
        [at(0), "gpt-5-mini", "compared", 1_000],
        [at(0), "gpt-9", "not_sold", 1_000],
        [at(1), "gpt-5-mini", "no_data", undefined],
        [at(2), "gpt-5-mini", "compared", 0],
        [at(48), "gpt-5-mini", "too_young", 7],
      ],
    )
    expect(unexplained).toBe("0.003")
  })

  function compare(buckets: readonly object[], ours: readonly ReconciledSums[]): Promise<ComparedUsage> {
    const exported = readUsageExport("openai", openAiPage(...buckets))
    if (exported === null) throw new Error("the export was not read")
    const modelOf = (theirs: string) => theirs.replace("-2025-08-07", "")
    return compareUsage(exported, ours, { modelOf, keyOf: null }, LATER_MS)
  }
})

describe("D98 tollgate reconcile", () => {
  let key: string

  beforeAll(async () => {
    ;({ key } = await gateway.account("1"))
    // So many that each of the two keys is used.
    for (let call = 0; call < 15; call += 1) await chat(gateway, key)
    provider.replyOnce(json(429, "{}"))
    await chat(gateway, key)
    await moveToThePast()
  })

  /** The calls as they would be if they had been made at half past nine. */
  async function moveToThePast(): Promise<void> {
    await untilIs(() => gateway.sql`SELECT FROM tollgate.attempts`, { length: 1 })
    const at = new Date(NINE_MS + HOUR_MS / 2)
    const prefix = floorId(at).slice(0, 14)
    await falsify(gateway.sql, async (tx) => {
      for (const table of ["holds", "ends", "attempts"])
        await tx.unsafe(`UPDATE tollgate.${table} SET id = ('${prefix}' || substr(id::text, 15))::uuid
          ${table === "holds" ? "" : `, ended_at = '${at.toISOString()}'`}`)
    })
  }

  async function run(results: readonly object[], ...words: readonly string[]) {
    const file = join(folder, "usage.json")
    await writeFile(file, JSON.stringify(openAiPage(openAiBucket(NINE_MS, results))))
    return type(["reconcile", "openai", file, ...words], ACCESS)
  }
  const dated = { model: `${CHAT}-2025-08-07` }
  const all = { ...dated, input_tokens: 160, output_tokens: 80, num_model_requests: 16 }

  test("says that every step agrees, with exit code 0", async () => {
    const said = await run([all])
    expect(said).toMatchObject({ code: 0, out: "Every step agrees.\n" })
    expect(said.err).toContain(
      "Compared 1 of 1 sums: theirs 0.00048 USD, ours 0.00048 USD, unexplained 0.00 USD, from elsewhere 0.00 USD.",
    )
  })

  test("explains what the attempt may have cost, and changes no charge", async () => {
    const balances = () => gateway.admin("GET", "/accounts")
    const before = await balances()
    const said = await run([{ ...all, input_tokens: 170, num_model_requests: 17 }])
    expect(said.code).toBe(0)
    expect(said.out).toMatch(
      /2026-11-20 09:00:00 UTC +\S+ +- +17 +16 +250 +240 +0\.00001 +0\.00 +attempts 0\.00001/,
    )
    expect(await balances()).toEqual(before)
  })

  test("fails with exit code 1 above the tolerance, and not below it", async () => {
    const more = { ...all, input_tokens: 166 }
    const hidden = { ...more, output_tokens: 120 }
    const failed = await run([hidden], "--tolerance", "1")
    expect(failed).toMatchObject({ code: 1 })
    expect(failed.err).toContain("are unexplained or from elsewhere")
    expect(await run([hidden], "--tolerance", "100")).toMatchObject({ code: 0 })
  })

  test("fails for calls from elsewhere, although they explain the whole difference", async () => {
    const calls = { ...all, input_tokens: 320, output_tokens: 160, num_model_requests: 32 }
    const said = await run([calls], "--json", "--tolerance", "46.8")
    const { theirs, unexplained, explained, unmatched } = JSON.parse(said.out)
    expect({ theirs, unexplained, explained, unmatched }).toEqual({
      theirs: "0.00096",
      unexplained: "0",
      explained: { attempts: "0.00003", estimates: "0", cut: "0", boundary: "0", elsewhere: "0.00045" },
      unmatched: "0.00045",
    })
    expect(said.code).toBe(1)
    expect(said.err).toContain("0.00045 USD (46.875 %) are unexplained or from elsewhere")
    expect(await run([calls], "--tolerance", "46.9")).toMatchObject({ code: 0 })
  })

  test("fails for tokens of a model without calls, whatever the tolerance", async () => {
    const foreign = { model: "gpt-9", input_tokens: 1, num_model_requests: 1 }
    const said = await run([all, foreign], "--tolerance", "100")
    expect(said.code).toBe(1)
    expect(said.err).toContain("the provider counts tokens of models without calls of ours: gpt-9")
    expect(await run([all, { ...foreign, input_tokens: 0 }])).toMatchObject({ code: 0 })
  })

  test("fails if there are sums and none could be compared, and says which upstreams it looked for", async () => {
    const other = await run([all], "--upstream", "first,second")
    expect(other.code).toBe(1)
    expect(other.err).toContain("No call of ours in this time was by first, second: --upstream names others.")
    expect(other.err).toContain("nothing was compared; the last column says why")
    const young = join(folder, "young.json")
    const begun_ms = Math.floor(Date.now() / HOUR_MS - 1) * HOUR_MS
    await writeFile(young, JSON.stringify(openAiPage(openAiBucket(begun_ms, [all]))))
    const said = await type(["reconcile", "openai", young], ACCESS)
    expect(said).toMatchObject({ code: 1, out: expect.stringContaining("too young to compare") })
    expect(said.err).toContain("nothing was compared")
    expect(await run([])).toMatchObject({ code: 1 })
  })

  test("is the comparison of POST /admin/reconciliation, whose result is in the metrics", async () => {
    const page = openAiPage(openAiBucket(NINE_MS, [{ ...all, input_tokens: 170, num_model_requests: 17 }]))
    const compared = await gateway.admin<ComparedUsage>("POST", "/reconciliation", {
      provider: "openai",
      export: page,
    })
    const said = await run([{ ...all, input_tokens: 170, num_model_requests: 17 }], "--json")
    expect(JSON.parse(said.out)).toEqual({ ...compared })
    expect(compared).toMatchObject({ theirs: "0.00049", ours: "0.00048", rows: [{ state: "compared" }] })
    const metrics = await gateway.metrics()
    expect(metrics).toContain('tollgate_reconciled_usd{provider="openai",part="theirs"} 0.00049')
    expect(metrics).toMatch(/tollgate_reconciliation_timestamp_seconds\{provider="openai"\} \d{10}/)
    const too_late = openAiBucket(NINE_MS + 367 * 24 * HOUR_MS, [])
    const wrong = [
      [{ provider: "cohere", export: page }, "provider"],
      [{ provider: "anthropic", export: page }, "export"],
      [{ provider: "openai" }, "export"],
      [{ provider: "openai", export: page, upstreams: [] }, "upstreams"],
      [{ provider: "openai", export: page, models: { a: 1 } }, "models"],
      [{ provider: "openai", export: openAiPage(openAiBucket(NINE_MS, []), too_late) }, "export"],
    ] as const
    for (const [body, param] of wrong) {
      const answer = await fetch(`${gateway.url}/admin/reconciliation`, {
        method: "POST",
        headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      })
      const { error }: { error: { param: string } } = JSON.parse(await answer.text())
      expect([answer.status, error.param]).toEqual([400, expect.stringContaining(param)])
    }
  })

  test("compares by key, and knows models by --map", async () => {
    const rows = await keyed()
    const said = await run(rows, "--keys", "key_1=a,key_2=b", "--map", `renamed=${CHAT}`, "--json")
    expect(JSON.parse(said.out)).toMatchObject({ unexplained: "0", rows: [{ key: "a" }, { key: "b" }] })
    expect(said.code).toBe(0)
    const foreign = ["--keys", "key_1=a,key_2=c", "--map", `renamed=${CHAT}`, "--tolerance", "0"]
    expect((await run(rows, ...foreign)).code).toBe(1)
  })

  test("matches the requests of a list by the provider's ids, with calls and attempts", async () => {
    const answer = HELLO
    const withId =
      (id: string, script = answer): typeof answer =>
      (exchange) =>
        script({
          ...exchange,
          head: (status, headers) => exchange.head(status, { ...headers, "x-generation-id": id }),
        })
    const differing = []
    for (const id of ["gen-1", "gen-2"]) {
      provider.replyOnce(withId(id))
      differing.push((await chat(gateway, key)).headers.get("x-request-id"))
    }
    provider.replyOnce(withId("gen-3", json(503, "{}")))
    await chat(gateway, key)
    // The end of a call does not wait for its attempts.
    await untilIs(() => gateway.sql`SELECT FROM tollgate.attempts WHERE request_id = 'gen-3'`, { length: 1 })
    const now = new Date().toISOString()
    const row = (id: string, prompt: number) => `${id},${now},${prompt},5,${CHAT}`
    const rows = [row("gen-1", 10), row("gen-2", 12), row("gen-3", 0), row("gen-elsewhere", 900)]
    const file = join(folder, "activity.csv")
    await writeFile(
      file,
      `generation_id,created_at,tokens_prompt,tokens_completion,model_permaslug\n${rows.join("\n")}\n`,
    )
    const ask = (...words: readonly string[]) =>
      type(["reconcile", "openrouter", file, "--upstream", "openai", ...words], ACCESS)
    expect(JSON.parse((await ask("--json")).out)).toMatchObject({
      requests: { matched: 3, missing: ["gen-elsewhere"], differing: [differing[1]] },
    })
    expect((await ask()).err).toContain("No call or attempt of ours has 1: gen-elsewhere.")
  })

  /** What the provider would report, by key. */
  async function keyed() {
    const found = await gateway.sql<{ key: string; calls: number }[]>`
      SELECT details ->> 'key' AS key, count(*)::int AS calls FROM tollgate.ends GROUP BY 1 ORDER BY 1`
    expect(found.map(({ key: name }) => name)).toEqual(["a", "b"])
    return found.map(({ calls }, at) => ({
      model: "renamed",
      api_key_id: `key_${at + 1}`,
      input_tokens: 10 * calls,
      output_tokens: 5 * calls,
      num_model_requests: calls,
    }))
  }

  test.each([
    [["--tolerance", "much"], 2, "--tolerance: expected a percentage from 0 to 100"],
    [["--map", "one"], 2, "--map: expected THEIRS=OURS"],
  ])("refuses %p", async (words, code, sentence) => {
    expect(await run([all], ...words)).toMatchObject({ code, err: `tollgate: ${sentence}\n` })
  })

  test("refuses a file of another kind", async () => {
    const file = join(folder, "costs.json")
    await writeFile(file, "{}")
    const said = await type(["reconcile", "anthropic", file], ACCESS)
    expect(said.code).toBe(1)
    expect(said.err).toContain("is not an export of anthropic's usage by model")
  })
})

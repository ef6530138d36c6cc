import { describe, expect, test } from "bun:test"
import { anyErrors, presets } from "../../src/presets/presets.ts"
import { exampleConfiguration } from "../docs/blocks.ts"
import { priceOf } from "../support/price.ts"
import { anUpstream } from "../support/upstream.ts"
import { and, load, small, upstream } from "./small.ts"

test("the example of docs/configuration.md means what it says", () => {
  const { upstreams, models, ...sections } = load(exampleConfiguration())
  const timeouts = { connect_ms: 3_000, first_byte_ms: 120_000, idle_ms: 300_000, total_ms: 1_800_000 }
  const on_disconnect = { stream: "auto", json: "drain", drain_for_ms: 30_000 } as const
  const openai = anUpstream({
    name: "openai",
    base_url: "https://api.openai.com/v1",
    api_key: "sk-openai",
    usage: "default",
    preset: { name: "openai", from: "base_url" },
    errors: presets.openai?.errors ?? anyErrors,
    timeouts,
    on_disconnect,
  })
  expect(upstreams[0]).toEqual(openai)
  expect(models[0]).toEqual({
    name: "gpt-5-mini",
    family: "chat",
    operations: ["chat", "embeddings", "responses"],
    routes: [{ upstream: openai, model: "gpt-5-mini-2025-08-07", priority: 0, weight: 1 }],
    price: priceOf(250_000n, 25_000n, 2_000_000n),
    tiers: [],
    service_tiers: [],
    max_output_tokens: 128_000,
    hold_output_tokens: 8_192,
    part_tokens: null,
    context_tokens: null,
    open: { hold_rounds: 1, max_rounds: 32 },
    refuse: [],
    set: {},
    hold: "worst",
    hold_searches: 10,
    unlimited_thinking: false,
    bytes_per_token: 4,
    estimate: { prompt: "client_cut", hidden_output: null },
  })
  expect(sections).toMatchObject({
    vendors: ["anthropic"],
    stream: { keepalive_ms: 15_000, commit_after_ms: 50, finish_wait_ms: 2_000 },
    limits: { body_bytes: 20 * 1024 ** 2, memory_bytes: null, in_flight: 10_000 },
    lease: { renew_ms: 5_000, expire_ms: 20_000 },
    shutdown: { ready_delay_ms: 0, drain_ms: 600_000 },
    workers: 1,
  })
})

describe("what may be left out", () => {
  const { upstreams, models, ...defaults } = load("")

  test.each([
    ["all but a comment", "# nothing\n"],
    ["all but null", "null"],
    [
      "every section's content",
      "vendors:\nupstreams:\nmodels:\nstream:\nlimits:\nlease:\nshutdown:\nworkers:\n",
    ],
    ["every section's keys", "stream: {}\nlimits: {}\nlease: {}\nshutdown: {}\nmodels: []\nupstreams: {}\n"],
    ["every key's value", "stream: { keepalive: }\nlimits: { body: null, in_flight: }\n"],
  ])("%s", (_, text) => {
    expect(load(text)).toEqual({ ...defaults, upstreams: [], models: [] })
  })

  test("an upstream without a key has none", () => {
    expect(load(JSON.stringify(small)).upstreams[0]?.keys).toEqual([{ name: "", api_key: null, weight: 1 }])
  })

  test("D12 hold_output_tokens is max_output_tokens, cached_input is input, the upstream's model is the name", () => {
    const [model] = load(JSON.stringify(small)).models
    expect(model).toMatchObject({
      hold_output_tokens: 100,
      price: priceOf(1_000_000n, 1_000_000n, 2_000_000n),
      routes: [{ model: "m" }],
    })
  })

  test("D44 a call's price is exact to the nano; a price of a call alone is one; free is a price of nothing", () => {
    const priced = (model: object) =>
      load(and({ models: [{ ...small.models[0], ...model }] })).models[0]?.price
    expect(priced({ price: { input: "0", output: "0", per_call: "0.000000001" } })).toEqual(
      priceOf(0n, 0n, 0n, 1n),
    )
    expect(priced({ price: undefined, free: true })).toEqual(priceOf(0n, 0n, 0n))
  })

  test("a part of a section leaves the rest at its defaults", () => {
    expect(load(and({ limits: { in_flight: 5 } })).limits).toEqual({ ...defaults.limits, in_flight: 5 })
  })
})

describe("what is accepted besides", () => {
  test("D40 origins of every kind that browsers have", () => {
    const origins = [
      "https://app.example.com",
      "http://localhost:3000",
      "http://[::1]:8080",
      "https://xn--bcher-kva.example",
    ]
    expect(load(and({ cors: { origins } })).cors).toEqual({ origins })
  })

  test("slashes at the end of a base_url are dropped", () => {
    expect(load(upstream({ base_url: "https://host:8443/a/b//" })).upstreams[0]?.base_url).toBe(
      "https://host:8443/a/b",
    )
    expect(load(upstream({ base_url: "http://[::1]:80/" })).upstreams[0]?.base_url).toBe("http://[::1]:80")
  })

  test("one name in both families, and several upstreams in their order", () => {
    const file = {
      upstreams: {
        a: { family: "chat", base_url: "http://a" },
        b: { family: "chat", base_url: "http://b" },
        c: { family: "messages", base_url: "http://c" },
      },
      models: [
        {
          ...small.models[0],
          upstreams: [{ use: "b" }, { use: "a", model: "x" }, { use: "b", model: "y" }],
        },
        { ...small.models[0], family: "messages", upstreams: [{ use: "c" }] },
      ],
    }
    const { models } = load(JSON.stringify(file))
    expect(models.map(({ family }) => family)).toEqual(["chat", "messages"])
    expect(models[0]?.routes.map(({ upstream, model }) => [upstream.name, model])).toEqual([
      ["b", "m"],
      ["a", "x"],
      ["b", "y"],
    ])
  })

  test("YAML's own means: anchors, merges, block scalars, JSON", () => {
    const text = `
      upstreams: { a: { family: chat, base_url: "http://a" } }
      models:
        - &first { name: one, family: chat, upstreams: [{ use: a }], price: &price { input: "1", output: '2' }, max_output_tokens: 5 }
        - { <<: *first, name: two, price: *price }`
    expect(load(text).models.map(({ name }) => name)).toEqual(["one", "two"])
  })
})

import { describe, expect, test } from "bun:test"
import type { ErrorMeaning } from "../../src/presets/preset.ts"
import { presetAt, presetNames, presets } from "../../src/presets/presets.ts"
import { meaningOf } from "../../src/upstream/account-errors.ts"
import type { OperationName } from "../../src/wire/call.ts"
import { load, refusal, small } from "../config/small.ts"

/** D83: a preset fills in what the file does not say, and nothing else. */

const entry = (fields: object) => JSON.stringify({ upstreams: { openai: fields } })
const loaded = (fields: object) => load(entry(fields)).upstreams[0]

describe("D83 the preset of an upstream", () => {
  const hosts: [base_url: string, name: string | null][] = [
    ["https://api.openai.com/v1", "openai"],
    ["https://eu.api.openai.com/v1", "openai"],
    ["https://api.openai.com.example.com/v1", null],
    ["https://acme.openai.azure.com/openai/deployments/{model}", "azure"],
    ["https://acme.openai.azure.com/openai/v1", "azure-v1"],
    ["https://acme.services.ai.azure.com/openai/v1", "azure-v1"],
    ["https://acme.openai.azure.com", null],
    ["https://api.anthropic.com", "anthropic"],
    ["https://bedrock-runtime.us-east-1.amazonaws.com/v1", "bedrock"],
    ["https://bedrock-mantle.us-east-1.api.aws/v1", "bedrock"],
    ["https://bedrock-runtime.amazonaws.com/v1", null],
    ["https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi", "vertex"],
    ["https://generativelanguage.googleapis.com/v1beta/openai", "gemini"],
    ["https://acme.cloud.databricks.com/serving-endpoints", "databricks"],
    ["https://openrouter.ai/api/v1", "openrouter"],
    ["https://ollama.com/v1", "ollama"],
    ["http://127.0.0.1:11434/v1", null],
    ["https://proxy.example.com/api.openai.com/v1", null],
    ["https:///", null],
  ]
  test.each(hosts)("%s: %p", (base_url, name) => {
    expect(presetAt(base_url)).toBe(name)
  })

  test("is told with the key that named it", () => {
    expect(loaded({ provider: "groq" })?.preset).toEqual({ name: "groq", from: "provider" })
    expect(loaded({ family: "chat", base_url: "https://api.groq.com/openai/v1" })?.preset).toEqual({
      name: "groq",
      from: "base_url",
    })
    expect(loaded({ family: "chat", base_url: "http://127.0.0.1:9/v1" })?.preset).toBeNull()
  })

  test("is none where the provider at that host does not offer the family", () => {
    const upstream = loaded({ family: "chat", base_url: "https://api.anthropic.com/v1" })
    expect(upstream).toMatchObject({ preset: null, auth: { header: "authorization", prefix: "Bearer " } })
  })

  test("of the host gives way to the one that is named", () => {
    const upstream = loaded({ provider: "vllm", base_url: "https://api.mistral.ai/v1" })
    expect(upstream).toMatchObject({ preset: { name: "vllm" }, edits: null, idle_connection_ms: 4_000 })
  })
})

describe("D83 what a preset fills in", () => {
  const rows: [fields: object, expected: object][] = [
    [{ provider: "openai" }, { family: "chat", base_url: "https://api.openai.com/v1" }],
    [{ provider: "anthropic" }, { family: "messages", base_url: "https://api.anthropic.com" }],
    [
      { provider: "azure", base_url: "https://acme.openai.azure.com/" },
      {
        base_url: "https://acme.openai.azure.com/openai/deployments/{model}",
        query: "api-version=2024-10-21",
        auth: { header: "api-key", prefix: "" },
      },
    ],
    [{ provider: "mistral" }, { edits: { set: {}, drop: ["stream_options"] } }],
    [{ provider: "gemini" }, { usage: "gemini" }],
    [{ provider: "vllm" }, { idle_connection_ms: 4_000 }],
    [{ provider: "deepseek", family: "messages" }, { base_url: "https://api.deepseek.com/anthropic" }],
  ]
  test.each(rows)("%j", (fields, expected) => {
    expect(loaded(fields)).toMatchObject(expected)
  })

  test("D12 DashScope does not limit the thinking of its models", () => {
    const limits = (upstreams: object, fields: object = {}) => {
      const [model] = small.models
      const models = [{ ...model, upstreams: Object.keys(upstreams).map((use) => ({ use })), ...fields }]
      return load(JSON.stringify({ upstreams, models })).models[0]?.unlimited_thinking
    }
    const [qwen, other] = [{ provider: "dashscope" }, { provider: "openai" }]
    expect([limits({ qwen }), limits({ other }), limits({ other, qwen })]).toEqual([true, false, true])
    expect(limits({ qwen }, { unlimited_thinking: false })).toBe(false)
    expect(limits({ other }, { unlimited_thinking: true })).toBe(true)
  })

  const wins: [fields: object, expected: object][] = [
    [
      {
        provider: "azure",
        base_url: "https://apim.example.com/llm/{model}",
        query: { "api-version": "x", a: "b" },
      },
      { base_url: "https://apim.example.com/llm/{model}", query: "api-version=x&a=b" },
    ],
    [
      { provider: "azure", base_url: "https://acme.openai.azure.com", auth: "bearer" },
      { auth: { header: "authorization", prefix: "Bearer " } },
    ],
    [{ provider: "mistral", drop: [] }, { edits: null }],
    [
      { provider: "mistral", set: { safe_prompt: true } },
      { edits: { set: { safe_prompt: true }, drop: ["stream_options"] } },
    ],
    [{ provider: "gemini", usage: "default" }, { usage: "default" }],
    [{ provider: "vllm", idle_connection: "9s" }, { idle_connection_ms: 9_000 }],
  ]
  test.each(wins)("the file wins: %j", (fields, expected) => {
    expect(loaded(fields)).toMatchObject(expected)
  })

  const faults: [fields: object, message: string][] = [
    [{ provider: "nobody" }, `upstreams.openai.provider: expected one of ${presetNames.join(", ")}`],
    [
      { provider: "anthropic", family: "chat" },
      "upstreams.openai.family: expected messages, because anthropic offers no other",
    ],
    [{ base_url: "http://127.0.0.1:9" }, "upstreams.openai.family: expected chat or messages"],
    [
      { base_url: "https://acme.openai.azure.com" },
      "upstreams.openai.family: expected chat or messages, or provider: azure or azure-v1, which has this host",
    ],
    [
      { provider: "gemini", family: "messages" },
      "upstreams.openai.family: expected chat, because gemini offers no other",
    ],
    [
      { provider: "azure" },
      "upstreams.openai.base_url: expected your own address, such as https://RESOURCE.openai.azure.com, because azure has no common address",
    ],
    [
      { provider: "bedrock", family: "messages" },
      "upstreams.openai.base_url: expected your own address, such as https://bedrock-mantle.REGION.api.aws, because bedrock has no common address",
    ],
    [
      { provider: "vertex", base_url: "https://us-central1-aiplatform.googleapis.com" },
      "upstreams.openai.base_url: expected a URL with the path of your account or project, such as https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION/endpoints/openapi",
    ],
  ]
  test.each(faults)("%j is refused", (fields, message) => {
    expect(refusal(entry(fields))).toBe(message)
  })

  test("is what an operator could write: no field that decides what a call can cost, no other key of a request", () => {
    for (const [provider, { chat, messages, drop = [], query = {} }] of Object.entries(presets)) {
      const base_url = `https://example.com/${chat?.path ?? messages?.path ?? ""}`
      expect(
        loaded({ family: chat === undefined ? "messages" : "chat", base_url, drop, query }),
      ).toMatchObject({
        preset: null,
      })
      expect({ provider, offers: chat !== undefined || messages !== undefined }).toEqual({
        provider,
        offers: true,
      })
    }
  })
})

describe("D83 D63 what a model can be called for", () => {
  const upstreams = {
    all: { family: "chat", base_url: "http://127.0.0.1:9" },
    gemini: { provider: "gemini" },
    groq: { provider: "groq" },
    vertex: { family: "chat", base_url: "https://aiplatform.googleapis.com/v1/projects/p/endpoints/openapi" },
    perplexity: { provider: "perplexity" },
    anthropic: { provider: "anthropic" },
  }
  const modelAt = (uses: readonly string[], fields: object = {}) =>
    JSON.stringify({
      upstreams,
      models: [
        {
          name: "m",
          family: "chat",
          upstreams: uses.map((use) => ({ use })),
          free: true,
          max_output_tokens: 9,
          ...fields,
        },
      ],
    })
  const rows: [uses: string[], fields: object, operations: OperationName[]][] = [
    [["all"], {}, ["chat", "embeddings", "responses"]],
    [["gemini"], {}, ["chat", "embeddings"]],
    [["vertex"], {}, ["chat"]],
    [["perplexity"], {}, ["embeddings", "responses"]],
    [["all", "gemini", "groq"], {}, ["chat"]],
    [["gemini"], { operations: ["responses"] }, ["responses"]],
    [["anthropic"], { family: "messages" }, ["messages"]],
  ]
  test.each(rows)("at %j with %j: %j", (uses, fields, operations) => {
    expect(load(modelAt(uses, fields)).models[0]?.operations).toEqual(operations)
  })

  test("is said in the file where its upstreams have nothing in common", () => {
    expect(refusal(modelAt(["vertex", "perplexity"]))).toBe(
      "models[0].operations: expected a list of operations, because its upstreams have no operation in common",
    )
  })
})

describe("D83 what refusals mean besides those of presets.test.ts", () => {
  const rows: [provider: string, status: number, body: unknown, meaning: ErrorMeaning | null][] = [
    ["dashscope", 429, { error: { code: "insufficient_quota" } }, null],
    ["dashscope", 400, { error: { code: "Arrearage" } }, "account"],
    ["groq", 498, { error: { code: "capacity_exceeded" } }, "rate"],
    ["gemini", 400, [{ error: { details: [{ reason: "OTHER" }] } }], null],
    ["fireworks", 412, { error: { message: "Not loaded: 'Account acme is suspended'" } }, null],
    ["moonshot", 429, { error: { type: "engine_overloaded_error" } }, null],
    [
      "xai",
      403,
      { code: "permission-denied", error: "Your newly created team doesn't have any credits" },
      "account",
    ],
  ]
  test.each(rows)("%s: %d %j is %p", (provider, status, body, meaning) => {
    const upstream = loaded({ provider })
    if (upstream === undefined) throw new Error("no upstream")
    expect(meaningOf(status, JSON.stringify(body), upstream.errors)).toBe(meaning)
  })
})

import { describe, expect, test } from "bun:test"
import { describe as describeRequest } from "../../src/admission/describe.ts"
import type { Described } from "../../src/admission/described.ts"
import { GatewayError } from "../../src/errors.ts"
import type { OperationName } from "../../src/wire/call.ts"
import { FIELDS, type Means, PARTS, TOOLS } from "../../src/wire/fields.ts"
import { FieldTexts } from "../../src/wire/json.ts"
import { refusalOf } from "../support/refusal.ts"
import { png } from "./files.ts"

const BASE: Readonly<Record<OperationName, object>> = {
  chat: { model: "m", messages: [{ role: "user", content: "hello" }] },
  messages: { model: "m", max_tokens: 9, messages: [{ role: "user", content: "hello" }] },
  responses: { model: "m", input: "hello" },
  embeddings: { model: "m", input: "hello" },
}
const FAMILIES = ["chat", "messages", "responses", "embeddings"] as const

function described(operation: OperationName, fields: object, headers?: Record<string, string>): Described {
  return describeRequest(operation, new FieldTexts({ ...BASE[operation], ...fields }), headers)
}
/** What it asks for, as an object. */
const asked = (operation: OperationName, fields: object): object =>
  Object.fromEntries(described(operation, fields).switches)

const faultOf = (operation: OperationName, fields: object) => refusalOf(() => described(operation, fields))

describe("D88 every row of the table changes exactly one entry of what is collected", () => {
  type Row = readonly [names: string, means: Means, argument?: string, off?: string]
  const places: Readonly<Record<string, readonly Row[]>> = FIELDS
  /** A value of a field that asks for what its row says, and how it is collected. */
  const VALUES: Partial<Record<Means, readonly [value: unknown, entry: string]>> = {
    text: ["words", "bytes"],
    opaque: [{ model: "x", Tools: [] }, "bytes"],
    tools: [[{ type: "custom", name: "f" }], "bytes"],
    media: [`data:image/png;base64,${png()}`, "media"],
    source: [{ data: png() }, "media"],
    data: [png(), "media"],
    address: [`data:image/png;base64,${png()}`, "media"],
    media_size: ["original", "media_size"],
    hidden: [{ id: "x" }, "switches"],
    provider_work: [["x"], "switches"],
    price: [{ x: 1 }, "switches"],
    modalities: [["image"], "switches"],
    ttl: ["1h", "switches"],
    refused: [{ x: 1 }, "switches"],
    limit: [77, "max_tokens"],
    other_limit: [77, "other_limit"],
    betas: [["fast-mode-2026-02-01"], "switches"],
    choices: [3, "choices"],
    reasoning: [{ effort: "low" }, "reasoning"],
    thinking: [5, "reasoning"],
  }
  /** Where a field of each place stands; `other` stands in for the field, with a name of the same length. */
  const AT: Readonly<Record<string, (fields: object) => readonly [OperationName, object]>> = {
    all: (fields) => ["chat", fields],
    chat: (fields) => ["chat", fields],
    responses: (fields) => ["responses", fields],
    messages: (fields) => ["messages", fields],
    kwargs: (fields) => ["chat", { chat_template_kwargs: fields }],
    reasoning: (fields) => ["responses", { reasoning: fields }],
    cache: (fields) => ["messages", { cache_control: fields }],
    part: (fields) => ["chat", { messages: [{ role: "user", content: [fields] }] }],
    source: (fields) => ["chat", { messages: [{ role: "user", content: [{ type: "x", image: fields }] }] }],
    tool: (fields) => ["messages", { tools: [fields] }],
    function: (fields) => ["chat", { tools: [{ type: "function", function: fields }] }],
  }
  /** Of the operation's own, which have another row for all. */
  const own = new Set(FIELDS.chat.flatMap(([names]): string[] => names.split(" ")))
  const rows = Object.entries(AT).flatMap(([place, at]) =>
    (places[place] ?? []).flatMap(([names, means, argument]) => {
      const [value, entry] = VALUES[means] ?? []
      if (entry === undefined) return []
      // A sound is a medium, and needs a price.
      const entries = argument === "audio" ? [entry, "switches"] : [entry]
      const meant = names.split(" ").filter((name) => place !== "all" || !own.has(name))
      return meant.map((name) => ({ place, name, means, value, entries, at }))
    }),
  )
  test.each(rows)("$place: $name is $means", ({ place, name, means, value, entries, at }) => {
    const is_absent = entries.includes("bytes") || place === "all" || place in BASE
    const plain = described(...at(is_absent ? {} : { ["x".repeat(name.length)]: [] }))
    const with_field = described(...at({ [name]: name === "type" && means === "text" ? "custom" : value }))
    const changed = changedEntries(plain, with_field)
    expect(changed.filter((one) => one !== "bytes" || entries.includes("bytes"))).toEqual(entries)
  })

  test("none of the fields that mean nothing is counted or collected", () => {
    const names = FIELDS.all.flatMap(([names, means]) =>
      (means as Means) === "none" ? names.split(" ") : [],
    )
    for (const name of names.filter((name) => !own.has(name)))
      expect(changedEntries(described("chat", {}), described("chat", { [name]: ["words"] }))).toEqual([])
  })

  test("names stand in one row of a place, and every tool and type in one row", () => {
    const lists = [...Object.values(places), TOOLS, PARTS]
    for (const list of lists) {
      const names = list.flatMap(([names]) => names.split(" "))
      expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([])
    }
  })
})

describe("D12 a picture in any field takes nothing from the bytes of the others", () => {
  const url = `data:image/png;base64,${png(28, 28, 3_000)}`
  const names = Object.values(FIELDS).flatMap((rows) => rows.flatMap(([names]): string[] => names.split(" ")))
  const others = new Set(names.filter((name) => !["model", "messages", "input", "system"].includes(name)))
  /** Infinite for a request that is refused. */
  const bytesWith = (operation: OperationName, fields: object) => {
    try {
      return described(operation, fields).bytes
    } catch (error) {
      if (error instanceof GatewayError) return Number.POSITIVE_INFINITY
      throw error
    }
  }
  test.each([...others])("%s", (name) => {
    for (const operation of FAMILIES)
      for (const value of [url, [url], { x: url }, [{ x: url }]])
        expect(bytesWith(operation, { [name]: value })).toBeGreaterThanOrEqual(bytesWith(operation, {}))
  })
})

/** The names of the entries in which two descriptions differ. */
function changedEntries(one: Described, other: Described): string[] {
  const seen = (of: Described) => ({
    bytes: of.bytes,
    tokens: of.tokens,
    media: of.media,
    media_size: of.media_size_field,
    switches: [...of.switches],
    service_tier: of.service_tier,
    max_tokens: of.max_tokens,
    other_limit: of.other_limit,
    choices: of.choices,
    reasoning: of.uses_reasoning,
  })
  const [before, after] = [seen(one), Object.entries(seen(other))]
  return after.flatMap(([name, value]) =>
    Bun.deepEquals(value, new Map(Object.entries(before)).get(name)) ? [] : [name],
  )
}

const parts = (...content: readonly object[]) => ({ messages: [{ role: "user", content }] })

const FOR_AN_HOUR = { cache_control: { ttl: "1h" } }

describe("D60 what a request asks for besides text", () => {
  const rows: [OperationName, object, object][] = [
    ["chat", {}, {}],
    ["chat", parts({ type: "input_audio" }), { audio_input: "messages" }],
    ["chat", { modalities: ["text", "audio"] }, { audio_output: "modalities" }],
    ["chat", { modalities: ["image", "text"] }, { image_output: "modalities" }],
    ["chat", { modalities: ["video"] }, { modality: "modalities" }],
    ["chat", { modalities: ["text"] }, {}],
    ["chat", { audio: null }, {}],
    ["chat", { web_search_options: {} }, { web_search: "web_search_options" }],
    ["chat", { search_parameters: { mode: "off" }, enable_search: false }, {}],
    ["chat", { search_options: { forced_search: true } }, { web_search: "search_options" }],
    ["chat", { plugins: [{ id: "web" }] }, { web_search: "plugins" }],
    ["chat", { plugins: [{ id: "file-parser" }] }, { page: "plugins" }],
    ["chat", { plugins: [{ id: "fusion" }] }, { plugin: "plugins" }],
    ["chat", { plugins: [7] }, { plugin: "plugins" }],
    ["chat", { plugins: [{ id: "response-healing" }] }, {}],
    ["chat", { extra_body: { enable_search: true } }, { web_search: "extra_body" }],
    [
      "chat",
      { extra_body: { google: { cached_content: "c" } } },
      { hidden: "extra_body.google.cached_content" },
    ],
    ["chat", FOR_AN_HOUR, { cache_write_1h: "cache_control" }],
    ["chat", parts({ type: "text", cache_control: { ttl: "1h" } }), { cache_write_1h: "messages" }],
    [
      "responses",
      { input: [{ role: "user", content: [{ prompt_cache_breakpoint: { ttl: "1h" } }] }] },
      { cache_write_1h: "input" },
    ],
    ["chat", { tools: [{ function: FOR_AN_HOUR }] }, { cache_write_1h: "tools" }],
    ["messages", { tools: [{ name: "f", caching: { ttl: "1h" } }] }, { cache_write_1h: "tools" }],
    ["responses", { prompt_cache_options: { ttl: "12h" } }, { cache_ttl: "prompt_cache_options" }],
    ["messages", { cache_control: { type: "ephemeral", ttl: "5m" } }, {}],
    ["messages", parts({ type: "tool_use", input: FOR_AN_HOUR }), {}],
    ["chat", { service_tier: "flex" }, { service_tier: "service_tier" }],
    ["chat", { service_tier: "on_demand" }, {}],
    ["chat", { chat_template: "x" }, { refused: "chat_template" }],
    ["messages", { billing_policy: {} }, { refused: "billing_policy" }],
    ["responses", { extra_body: { background: true } }, { refused: "extra_body.background" }],
    ["responses", { background: false }, {}],
    ["chat", { best_of: 20 }, { refused: "best_of" }],
    ["chat", { best_of: 1, n_cmpl: 1, n: 1 }, {}],
    ["chat", { n: 1, n_cmpl: 8 }, { refused: "n_cmpl" }],
    ["responses", { n: 2 }, { refused: "n" }],
    ["chat", { best_of: JSON.rawJSON("1e400") }, { refused: "best_of" }],
    ["chat", { reasoning: { mode: JSON.rawJSON("1e400") } }, { refused: "reasoning.mode" }],
    ["chat", { best_of: { toString: 1, valueOf: 1 } }, { refused: "best_of" }],
    ["chat", { thinking: { type: { toString: 1 } } }, {}],
    ["messages", { anthropic_beta: ["x", "fast-mode-1"] }, { speed: "anthropic_beta" }],
    ["chat", { prompt_id: "p" }, { hidden: "prompt_id" }],
    ["responses", { reasoning: { mode: "pro" } }, { refused: "reasoning.mode" }],
  ]
  test.each(rows)("%s %j asks for %j", (operation, fields, asks) =>
    expect(asked(operation, fields)).toEqual(asks),
  )

  test.each<[unknown, string | null]>([
    ["auto", null],
    [null, null],
    ["default", "default"],
    ["standard_only", "default"],
    ["flex", "flex"],
    [5, ""],
  ])("D70 the tier of %j is %p", (service_tier, tier) => {
    expect(described("chat", { service_tier }).service_tier).toBe(tier)
  })
})

const SEARCHES = { web_search: "tools" }

describe("D61 tools by their type without its date", () => {
  const FUNCTION = { type: "function", function: { name: "f" } }
  const rows: [OperationName, object, object][] = [
    ["chat", { type: "function", function: { name: "web_search" } }, {}],
    ["chat", { function: { name: "f" } }, {}],
    ["chat", { name: "f" }, {}],
    ["chat", { functionDeclarations: [{ name: "f" }] }, {}],
    ["chat", { type: "web_search_20250305" }, SEARCHES],
    ["chat", { google_search: {} }, SEARCHES],
    ["chat", { googleSearch: {} }, SEARCHES],
    ["chat", { function_declarations: [], google_search: {} }, SEARCHES],
    ["chat", { ...FUNCTION, google_search: {} }, SEARCHES],
    ["chat", { name: "f", googleSearch: {} }, SEARCHES],
    ["messages", { name: "f", web_search: {} }, { web_search: "tools[0]" }],
    ["chat", { ...FUNCTION, google_search: null }, {}],
    ["chat", { url_context: {} }, { provider_work: "tools" }],
    ["chat", { type: "x_search" }, { "tool_run:x_search": "tools" }],
    ["chat", { type: "anything_20270101" }, { hosted_tool: "tools" }],
    ["chat", { anything: {} }, { hosted_tool: "tools" }],
    ["chat", {}, { hosted_tool: "tools" }],
    ["chat", { type: "Web_Search" }, { hosted_tool: "tools" }],
    ["responses", { type: "web_search_2025_08_26" }, { web_search: "tools[0]" }],
    ["responses", { type: "mcp", server_url: "https://x" }, { provider_work: "tools[0]" }],
    ["responses", { type: "tool_search" }, { provider_work: "tools[0]" }],
    ["responses", { type: "tool_search", execution: "client" }, {}],
    ["responses", { type: "shell" }, { "tool_run:shell": "tools[0]" }],
    ["responses", { type: "shell", environment: { type: "local" } }, {}],
    ["responses", { type: "web_search", execution: "client" }, { web_search: "tools[0]" }],
    [
      "responses",
      { type: "namespace", tools: [{ type: "file_search" }] },
      { "tool_run:file_search": "tools[0].tools[0]" },
    ],
    ["messages", { name: "f", input_schema: {} }, {}],
    ["messages", { type: "bash_20250124", name: "bash" }, {}],
    ["messages", { type: "web_fetch_20250910", name: "web_fetch" }, { provider_work: "tools[0]" }],
    ["messages", { type: "code_execution_20250825" }, { "tool_run:code_execution": "tools[0]" }],
    ["messages", { type: "advisor_20260301" }, { hosted_tool: "tools[0]" }],
  ]
  test.each(rows)("%s %j asks for %j", (operation, tool, asks) =>
    expect(asked(operation, { tools: [tool] })).toEqual(asks),
  )

  test.each<[OperationName, object, object]>([
    [
      "responses",
      { input: [{ type: "additional_tools", tools: [{ type: "mcp" }] }] },
      { provider_work: "input[0].tools[0]" },
    ],
    ["chat", { messages: [{ role: "system", tools: [{ type: "web_search" }] }] }, { web_search: "messages" }],
    [
      "messages",
      parts({
        type: "tool_addition",
        tool: { type: "tool_definition", definition: { type: "mcp_toolset" } },
      }),
      { provider_work: "messages[0].content[0].tool.definition" },
    ],
    ["responses", { input: [{ type: "mcp_list_tools", tools: [{ name: "f" }] }] }, {}],
  ])("%s %j asks for %j", (operation, fields, asks) => expect(asked(operation, fields)).toEqual(asks))
})

describe("D89 what opens a prompt", () => {
  const file = (fields: object) => parts({ type: "file", file: fields })
  const rows: [OperationName, object, string][] = [
    ["responses", { previous_response_id: "r" }, "previous_response_id"],
    ["responses", { prompt: { id: "p" } }, "prompt"],
    ["responses", { input: [{ type: "item_reference", id: "i" }] }, "input[0]"],
    ["responses", { input: [{ role: "user" }, { id: "i" }] }, "input[1]"],
    ["responses", { input: [{ type: "reasoning", id: "r", summary: [] }] }, "input[0]"],
    ["responses", { input: [{ type: "image_generation_call", id: "r" }] }, "input[0]"],
    ["messages", { thread: { type: "continue" } }, "thread"],
    [
      "messages",
      { context_management: { edits: [{ type: "compact_20260112" }] } },
      "context_management.edits[0].type",
    ],
    ["responses", { context_management: [{ type: "compaction" }] }, "context_management[0].type"],
    ["messages", { mcp_servers: [{ url: "https://x" }] }, "mcp_servers"],
    ["chat", { data_sources: [{ type: "x" }] }, "data_sources"],
    ["chat", file({ file_id: "f" }), "messages[0].content[0].file.file_id"],
    [
      "messages",
      parts({ type: "document", source: { type: "url", url: "https://x" } }),
      "messages[0].content[0].source.url",
    ],
    ["chat", parts({ type: "pages_url", pages_url: "https://x" }), "messages[0].content[0].pages_url"],
    ["chat", parts({ video_url: { url: "https://x" } }), "messages[0].content[0].video_url.url"],
    ["chat", { messages: [{ role: "assistant", audio: { id: "a" } }] }, "messages[0].audio.id"],
  ]
  test.each(rows)("%s %j by %s", (operation, fields, field) => {
    const { switches } = described(operation, fields)
    expect([switches.get("hidden") ?? switches.get("provider_work")]).toEqual([field])
  })

  const closed: [OperationName, object][] = [
    ["messages", { mcp_servers: [], file_ids: [], data_sources: [] }],
    ["messages", { thread: { type: "create" } }],
    ["messages", { context_management: { edits: [{ type: "clear_thinking_20251015" }] } }],
    ["responses", { input: [{ type: "reasoning", id: "r", encrypted_content: "x" }] }],
    ["messages", parts({ type: "search_result", source: "https://x", content: [] })],
    ["messages", parts({ type: "text", text: "x", citations: [{ url: "https://x" }] })],
    ["chat", parts({ type: "image_url", image_url: { url: "https://x" } })],
  ]
  test.each(closed)("not %s %j", (operation, fields) => expect(asked(operation, fields)).toEqual({}))

  test.each<[string, object, number]>([
    ["without a bound", { tools: [{ type: "mcp" }] }, Number.POSITIVE_INFINITY],
    ["by the calls", { tools: [{ type: "mcp" }], max_tool_calls: 2 }, 3],
    ["by none", { tools: [{ type: "mcp" }], max_tool_calls: 0 }, 1],
    [
      "by the uses of each tool",
      {
        tools: [
          { type: "web_search", max_uses: 5 },
          { type: "web_fetch", max_uses: 2 },
        ],
      },
      8,
    ],
    [
      "where one has no bound",
      { tools: [{ type: "web_search", max_uses: 5 }, { type: "mcp" }] },
      Number.POSITIVE_INFINITY,
    ],
    ["by what is no number", { tools: [{ type: "mcp" }], max_tool_calls: "2" }, Number.POSITIVE_INFINITY],
    ["once, where nothing is run", { previous_response_id: "r" }, 1],
  ])("the rounds that a request allows, %s", (_, fields, rounds) => {
    expect(described("responses", fields).rounds).toBe(rounds)
  })
})

describe("D18 a known name in another spelling is a 400 that names both (R5)", () => {
  const rows: [OperationName, object, param: string, meant: string][] = [
    ["chat", { Tools: [] }, "Tools", "tools"],
    ["chat", { Web_Search_Options: {} }, "Web_Search_Options", "web_search_options"],
    ["chat", { maxTokens: 9 }, "maxTokens", "max_tokens"],
    ["chat", { "model ": "x" }, "model ", "model"],
    ["chat", { ｔools: [] }, "ｔools", "tools"],
    ["chat", { stream_options: { "Include-Usage": true } }, "stream_options.Include-Usage", "include_usage"],
    ["chat", { usage: { Include: true } }, "usage.Include", "include"],
    ["chat", { messages: [{ role: "user", Content: "x" }] }, "messages[0].Content", "content"],
    ["chat", parts({ Type: "image_url" }), "messages[0].content[0].Type", "type"],
    [
      "chat",
      parts({ type: "image_url", image_url: { URL: "x" } }),
      "messages[0].content[0].image_url.URL",
      "url",
    ],
    ["chat", { tools: [{ Type: "web_search" }] }, "tools[0].Type", "type"],
    ["messages", { Cache_Control: {} }, "Cache_Control", "cache_control"],
    ["messages", { cache_control: { TTL: "1h" } }, "cache_control.TTL", "ttl"],
    [
      "responses",
      { input: [{ role: "user", content: [{ "Image Url": "x" }] }] },
      "input[0].content[0].Image Url",
      "image_url",
    ],
    ["responses", { Background: true }, "Background", "background"],
    ["embeddings", { Input: "x" }, "Input", "input"],
    ["chat", { extra_body: { Enable_Search: true } }, "extra_body.Enable_Search", "enable_search"],
  ]
  test.each(rows)("%s %j", (operation, fields, param, meant) => {
    const { code, detail, message } = faultOf(operation, fields)
    expect([code, detail.param]).toEqual(["invalid_request", param])
    expect(message).toContain(`\`${param}\``)
    expect(message).toContain(`\`${meant}\``)
  })

  test.each<[OperationName, object]>([
    ["chat", { tools: [{ type: "function", function: { parameters: { Tools: 1, Model: 2 } } }] }],
    ["messages", parts({ type: "tool_use", input: { Model: 1 } })],
    ["chat", { metadata: { Model: "x" }, logit_bias: { Model: 1 } }],
    ["chat", { response_format: { json_schema: { Tools: 1 } } }],
    ["responses", { input: [{ type: "function_call_output", output: '{"Tools":1}' }] }],
    ["chat", { new_field: { Tools: 1 }, Unknown: 1 }],
  ])("names that belong to the caller are not read: %s %j", (operation, fields) => {
    expect(() => described(operation, fields)).not.toThrow()
  })
})

describe("D19 another model or provider is refused", () => {
  const names = ["models", "fallbacks", "context_window_fallbacks", "content_policy_fallbacks"]
  names.push("context_window_fallback_dict", "provider", "route", "preset", "lora", "lora_path")
  names.push("safety_model", "api_base", "base_url", "api_key", "user_config", "num_retries")
  names.push("additional_drop_params", "headers", "extra_headers", "provider_specific_header")
  test.each(FAMILIES.flatMap((operation) => names.map((name) => [operation, name] as const)))(
    "%s: %s",
    (operation, name) => {
      const error = faultOf(operation, { [name]: ["x"] })
      expect([error.code, error.detail.param]).toEqual(["invalid_request", name])
      expect(error.message).toMatch(/expected null, because (?:a call uses|it can change)/)
      expect(() => described(operation, { [name]: null })).not.toThrow()
    },
  )

  test("retries of 0 ask for none, and LiteLLM itself sends those of its client library", () => {
    expect(() => described("chat", { num_retries: 0 })).not.toThrow()
    expect(() => described("messages", { max_retries: 2 })).not.toThrow()
    expect(faultOf("chat", { num_retries: 1 }).detail.param).toBe("num_retries")
  })

  test.each(["n", "max_tokens", "max_tool_calls", "messages", "models", "stream", "stream_options"])(
    "%s within extra_body",
    (name) => {
      expect(faultOf("chat", { extra_body: { [name]: 9 } }).detail.param).toBe(`extra_body.${name}`)
    },
  )
})

describe("D12 the limit, the choices and the reasoning of a request", () => {
  test("the larger limit, the choices", () => {
    expect(described("chat", { max_tokens: 5, max_completion_tokens: 7, n: 3 })).toMatchObject({
      max_tokens: 7,
      choices: 3,
    })
    expect(described("responses", { max_output_tokens: 5, max_tokens: 9, n: 3 })).toMatchObject({
      max_tokens: 5,
      other_limit: 9,
      choices: 1,
    })
    expect(described("messages", { max_tokens: 0 }).max_tokens).toBe(1)
    expect(described("chat", { extra_body: { n_predict: 7 } }).other_limit).toBe(7)
  })

  test.each<[object, boolean]>([
    [{}, false],
    [{ reasoning_effort: "none" }, false],
    [{ reasoning_effort: "low" }, true],
    [{ reasoning: {} }, false],
    [{ reasoning: { effort: "none", summary: "auto" } }, false],
    [{ reasoning: { effort: "high" } }, true],
    [{ reasoning: { enabled: false } }, false],
    [{ thinking: { type: "disabled" } }, false],
    [{ thinking: { type: "adaptive" } }, true],
    [{ enable_thinking: false }, false],
    [{ enable_thinking: true }, true],
    [{ chat_template_kwargs: { enable_thinking: true } }, true],
    [{ extra_body: { google: { thinking_config: { thinking_budget: 9 } } } }, true],
  ])("%j asks for reasoning: %p", (fields, reasons) =>
    expect(described("chat", fields).uses_reasoning).toBe(reasons),
  )
})

test.each<[string, Record<string, string>]>([
  ["interleaved-thinking-2025-05-14,files-api-2025-04-14", {}],
  ["files-api-2025-04-14, context-1m-2025-08-07", { large_prompt: "anthropic-beta" }],
  ["fast-mode-2026-02-01", { speed: "anthropic-beta" }],
  ["user-profiles-billing-2026-10-01", { payer: "anthropic-beta" }],
  ["output-300k-2026-03-24", { larger_output: "anthropic-beta" }],
])("D65 of the betas %j those that change a price or a limit are seen", (value, asks) => {
  const { switches: found } = described(
    "messages",
    {},
    { "anthropic-version": "2023-06-01", "anthropic-beta": value },
  )
  expect(Object.fromEntries(found)).toEqual(asks)
})

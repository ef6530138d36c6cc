import { describe, expect, test } from "bun:test"
import { describe as describeRequest } from "../../src/admission/describe.ts"
import type { Described } from "../../src/admission/described.ts"
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
  const rows: [string, OperationName, object, object][] = [
    ["text", "chat", {}, {}],
    ["audio", "chat", parts({ type: "input_audio" }), { audio_input: "messages" }],
    ["spoken output", "chat", { modalities: ["text", "audio"] }, { audio_output: "modalities" }],
    ["pictures as output (R6)", "chat", { modalities: ["image", "text"] }, { image_output: "modalities" }],
    ["another kind of output", "chat", { modalities: ["video"] }, { modality: "modalities" }],
    ["text output", "chat", { modalities: ["text"] }, {}],
    ["no voice", "chat", { audio: null }, {}],
    ["search options", "chat", { web_search_options: {} }, { web_search: "web_search_options" }],
    ["a search that is off", "chat", { search_parameters: { mode: "off" }, enable_search: false }, {}],
    [
      "options of a search (R6)",
      "chat",
      { search_options: { forced_search: true } },
      { web_search: "search_options" },
    ],
    ["a plugin", "chat", { plugins: [{ id: "web" }] }, { web_search: "plugins" }],
    ["a plugin by the page (R6)", "chat", { plugins: [{ id: "file-parser" }] }, { page: "plugins" }],
    ["a plugin of nobody", "chat", { plugins: [{ id: "fusion" }] }, { plugin: "plugins" }],
    ["a plugin that is no object", "chat", { plugins: [7] }, { plugin: "plugins" }],
    ["a plugin that costs nothing", "chat", { plugins: [{ id: "response-healing" }] }, {}],
    [
      "switches within extra_body (R6)",
      "chat",
      { extra_body: { enable_search: true } },
      { web_search: "extra_body" },
    ],
    [
      "within it, of Gemini",
      "chat",
      { extra_body: { google: { cached_content: "c" } } },
      { hidden: "extra_body.google.cached_content" },
    ],
    ["a cache of an hour", "chat", FOR_AN_HOUR, { cache_write_1h: "cache_control" }],
    [
      "of a part",
      "chat",
      parts({ type: "text", cache_control: { ttl: "1h" } }),
      { cache_write_1h: "messages" },
    ],
    [
      "of a breakpoint",
      "responses",
      { input: [{ role: "user", content: [{ prompt_cache_breakpoint: { ttl: "1h" } }] }] },
      { cache_write_1h: "input" },
    ],
    ["of a tool's function", "chat", { tools: [{ function: FOR_AN_HOUR }] }, { cache_write_1h: "tools" }],
    [
      "of the advisor",
      "messages",
      { tools: [{ name: "f", caching: { ttl: "1h" } }] },
      { cache_write_1h: "tools" },
    ],
    [
      "a cache of twelve hours",
      "responses",
      { prompt_cache_options: { ttl: "12h" } },
      { cache_ttl: "prompt_cache_options" },
    ],
    ["a cache of five minutes", "messages", { cache_control: { type: "ephemeral", ttl: "5m" } }, {}],
    ["what a tool was called with", "messages", parts({ type: "tool_use", input: FOR_AN_HOUR }), {}],
    ["a service tier", "chat", { service_tier: "flex" }, { service_tier: "service_tier" }],
    ["the model's own", "chat", { service_tier: "on_demand" }, {}],
    ["more than a client should say", "chat", { chat_template: "x" }, { refused: "chat_template" }],
    ["another payer", "messages", { billing_policy: {} }, { refused: "billing_policy" }],
    ["many answers of which one is shown", "chat", { best_of: 20 }, { refused: "best_of" }],
    ["one answer", "chat", { best_of: 1, n_cmpl: 1, n: 1 }, {}],
    ["many answers by the name of llama.cpp", "chat", { n: 1, n_cmpl: 8 }, { refused: "n_cmpl" }],
    ["many answers where an operation has one", "responses", { n: 2 }, { refused: "n" }],
    ["a number that no double holds", "chat", { best_of: JSON.rawJSON("1e400") }, { refused: "best_of" }],
    [
      "such a number within",
      "chat",
      { reasoning: { mode: JSON.rawJSON("1e400") } },
      { refused: "reasoning.mode" },
    ],
    ["an object that has no text", "chat", { best_of: { toString: 1, valueOf: 1 } }, { refused: "best_of" }],
    ["the same for a field of an object", "chat", { thinking: { type: { toString: 1 } } }, {}],
    ["betas in the body", "messages", { anthropic_beta: ["x", "fast-mode-1"] }, { speed: "anthropic_beta" }],
    ["a stored prompt of LiteLLM", "chat", { prompt_id: "p" }, { hidden: "prompt_id" }],
    [
      "more thought than a price knows",
      "responses",
      { reasoning: { mode: "pro" } },
      { refused: "reasoning.mode" },
    ],
  ]
  test.each(rows)("%s", (_, operation, fields, asks) => expect(asked(operation, fields)).toEqual(asks))

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
  const rows: [string, OperationName, object, object][] = [
    ["a function", "chat", { type: "function", function: { name: "web_search" } }, {}],
    ["a function without a type", "chat", { function: { name: "f" } }, {}],
    ["a function by its name", "chat", { name: "f" }, {}],
    ["functions in Gemini's form", "chat", { functionDeclarations: [{ name: "f" }] }, {}],
    ["a search", "chat", { type: "web_search_20250305" }, SEARCHES],
    ["a search without a type", "chat", { google_search: {} }, SEARCHES],
    ["a search in its own spelling", "chat", { googleSearch: {} }, SEARCHES],
    ["a search beside functions", "chat", { function_declarations: [], google_search: {} }, SEARCHES],
    ["a search in a function", "chat", { ...FUNCTION, google_search: {} }, SEARCHES],
    ["a search in a function without a type", "chat", { name: "f", googleSearch: {} }, SEARCHES],
    ["a search in a tool", "messages", { name: "f", web_search: {} }, { web_search: "tools[0]" }],
    ["no search in a function", "chat", { ...FUNCTION, google_search: null }, {}],
    ["tokens alone", "chat", { url_context: {} }, { provider_work: "tools" }],
    ["a fee", "chat", { type: "x_search" }, { "tool_run:x_search": "tools" }],
    ["nobody's", "chat", { type: "anything_20270101" }, { hosted_tool: "tools" }],
    ["nobody's without a type", "chat", { anything: {} }, { hosted_tool: "tools" }],
    ["nothing at all", "chat", {}, { hosted_tool: "tools" }],
    ["another spelling of a type", "chat", { type: "Web_Search" }, { hosted_tool: "tools" }],
    ["a search of another date", "responses", { type: "web_search_2025_08_26" }, { web_search: "tools[0]" }],
    [
      "servers of tools",
      "responses",
      { type: "mcp", server_url: "https://x" },
      { provider_work: "tools[0]" },
    ],
    [
      "a search of tools at the provider",
      "responses",
      { type: "tool_search" },
      { provider_work: "tools[0]" },
    ],
    ["a search of tools at the client", "responses", { type: "tool_search", execution: "client" }, {}],
    ["a shell at the provider", "responses", { type: "shell" }, { "tool_run:shell": "tools[0]" }],
    ["a shell at the client", "responses", { type: "shell", environment: { type: "local" } }, {}],
    [
      "a search that says client",
      "responses",
      { type: "web_search", execution: "client" },
      { web_search: "tools[0]" },
    ],
    [
      "in a namespace",
      "responses",
      { type: "namespace", tools: [{ type: "file_search" }] },
      { "tool_run:file_search": "tools[0].tools[0]" },
    ],
    ["without a type", "messages", { name: "f", input_schema: {} }, {}],
    ["of the vendor, at the client", "messages", { type: "bash_20250124", name: "bash" }, {}],
    ["pages", "messages", { type: "web_fetch_20250910", name: "web_fetch" }, { provider_work: "tools[0]" }],
    ["code", "messages", { type: "code_execution_20250825" }, { "tool_run:code_execution": "tools[0]" }],
    ["another model", "messages", { type: "advisor_20260301" }, { hosted_tool: "tools[0]" }],
  ]
  test.each(rows)("%s", (_, operation, tool, asks) =>
    expect(asked(operation, { tools: [tool] })).toEqual(asks),
  )

  test.each<[string, OperationName, object, object]>([
    [
      "of an item",
      "responses",
      { input: [{ type: "additional_tools", tools: [{ type: "mcp" }] }] },
      { provider_work: "input[0].tools[0]" },
    ],
    [
      "of a message",
      "chat",
      { messages: [{ role: "system", tools: [{ type: "web_search" }] }] },
      { web_search: "messages" },
    ],
    [
      "that a message adds",
      "messages",
      parts({
        type: "tool_addition",
        tool: { type: "tool_definition", definition: { type: "mcp_toolset" } },
      }),
      { provider_work: "messages[0].content[0].tool.definition" },
    ],
    [
      "that a server listed",
      "responses",
      { input: [{ type: "mcp_list_tools", tools: [{ name: "f" }] }] },
      {},
    ],
  ])("tools %s", (_, operation, fields, asks) => expect(asked(operation, fields)).toEqual(asks))
})

describe("D89 what opens a prompt", () => {
  const file = (fields: object) => parts({ type: "file", file: fields })
  const rows: [string, OperationName, object, string][] = [
    ["an earlier response", "responses", { previous_response_id: "r" }, "previous_response_id"],
    ["a stored prompt", "responses", { prompt: { id: "p" } }, "prompt"],
    ["a reference", "responses", { input: [{ type: "item_reference", id: "i" }] }, "input[0]"],
    ["a reference without a type", "responses", { input: [{ role: "user" }, { id: "i" }] }, "input[1]"],
    [
      "reasoning by its id",
      "responses",
      { input: [{ type: "reasoning", id: "r", summary: [] }] },
      "input[0]",
    ],
    ["a picture by its id", "responses", { input: [{ type: "image_generation_call", id: "r" }] }, "input[0]"],
    ["a thread", "messages", { thread: { type: "continue" } }, "thread"],
    [
      "a compaction",
      "messages",
      { context_management: { edits: [{ type: "compact_20260112" }] } },
      "context_management.edits[0].type",
    ],
    [
      "a compaction of a response",
      "responses",
      { context_management: [{ type: "compaction" }] },
      "context_management[0].type",
    ],
    ["servers of tools", "messages", { mcp_servers: [{ url: "https://x" }] }, "mcp_servers"],
    ["sources of data", "chat", { data_sources: [{ type: "x" }] }, "data_sources"],
    ["a document by its id", "chat", file({ file_id: "f" }), "messages[0].content[0].file.file_id"],
    [
      "a document by its address",
      "messages",
      parts({ type: "document", source: { type: "url", url: "https://x" } }),
      "messages[0].content[0].source.url",
    ],
    [
      "a document at an unknown name",
      "chat",
      parts({ type: "pages_url", pages_url: "https://x" }),
      "messages[0].content[0].pages_url",
    ],
    ["a video", "chat", parts({ video_url: { url: "https://x" } }), "messages[0].content[0].video_url.url"],
    [
      "an earlier spoken answer",
      "chat",
      { messages: [{ role: "assistant", audio: { id: "a" } }] },
      "messages[0].audio.id",
    ],
  ]
  test.each(rows)("%s", (_, operation, fields, field) => {
    const { switches } = described(operation, fields)
    expect([switches.get("hidden") ?? switches.get("provider_work")]).toEqual([field])
  })

  const closed: [string, OperationName, object][] = [
    ["empty lists", "messages", { mcp_servers: [], file_ids: [], data_sources: [] }],
    ["a thread that begins", "messages", { thread: { type: "create" } }],
    [
      "what only clears",
      "messages",
      { context_management: { edits: [{ type: "clear_thinking_20251015" }] } },
    ],
    ["encrypted reasoning", "responses", { input: [{ type: "reasoning", id: "r", encrypted_content: "x" }] }],
    [
      "a source of what was found",
      "messages",
      parts({ type: "search_result", source: "https://x", content: [] }),
    ],
    ["citations", "messages", parts({ type: "text", text: "x", citations: [{ url: "https://x" }] })],
    ["a picture at an address", "chat", parts({ type: "image_url", image_url: { url: "https://x" } })],
  ]
  test.each(closed)("not %s", (_, operation, fields) => expect(asked(operation, fields)).toEqual({}))

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

  test.each<[string, OperationName, object]>([
    ["a schema", "chat", { tools: [{ type: "function", function: { parameters: { Tools: 1, Model: 2 } } }] }],
    ["a tool's input", "messages", parts({ type: "tool_use", input: { Model: 1 } })],
    ["metadata and biases", "chat", { metadata: { Model: "x" }, logit_bias: { Model: 1 } }],
    ["a format", "chat", { response_format: { json_schema: { Tools: 1 } } }],
    [
      "what a tool returned",
      "responses",
      { input: [{ type: "function_call_output", output: '{"Tools":1}' }] },
    ],
    ["an unknown field", "chat", { new_field: { Tools: 1 }, Unknown: 1 }],
  ])("names that belong to the caller are not read: %s", (_, operation, fields) => {
    expect(() => described(operation, fields)).not.toThrow()
  })
})

describe("D19 another model or provider is refused", () => {
  const names = ["models", "fallbacks", "context_window_fallbacks", "content_policy_fallbacks"]
  names.push("context_window_fallback_dict", "provider", "route", "preset", "lora", "lora_path")
  names.push("api_base", "base_url", "api_key", "user_config", "num_retries")
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
])("D65 of the betas %j those that change a price ask for it", (value, asks) => {
  const { switches: found } = described(
    "messages",
    {},
    { "anthropic-version": "2023-06-01", "anthropic-beta": value },
  )
  expect(Object.fromEntries(found)).toEqual(asks)
})

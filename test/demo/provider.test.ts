import { afterAll, describe, expect, test } from "bun:test"
import Anthropic from "@anthropic-ai/sdk"
import OpenAI from "openai"
import { messagesModel } from "../../src/demo/messages.ts"
import { PROVIDER_KEY, startDemoProvider } from "../../src/demo/provider.ts"
import { embeddings } from "../../src/operations/embeddings.ts"
import { ANY_USAGE, readUsage } from "../../src/usage/reading.ts"

const provider = await startDemoProvider()
const openai = new OpenAI({ baseURL: `${provider.url}/v1`, apiKey: PROVIDER_KEY, maxRetries: 0 })
afterAll(() => provider.stop())

const messages = [{ role: "user" as const, content: "What is a reservation?" }]

describe("the demo's chat completions", () => {
  test("answer in JSON, about what was asked, with valid usage (D1)", async () => {
    const { choices, usage, model } = await openai.chat.completions.create({ model: "demo-small", messages })
    expect(model).toBe("demo-small")
    expect(choices).toHaveLength(1)
    expect(choices[0]?.finish_reason).toBe("stop")
    expect(choices[0]?.message.content).toContain("“What is a reservation?”")
    expect(choices[0]?.message.content).toContain("money set aside")
    expect(readUsage(usage).state).toBe("valid")
    expect(usage?.completion_tokens).toBeGreaterThan(20)
  })

  test("stream the same text, a word at a time: role first, finish_reason, usage only if asked, [DONE]", async () => {
    const whole = await openai.chat.completions.create({ model: "demo-small", messages })
    const stream = await openai.chat.completions.create({
      model: "demo-small",
      messages,
      stream: true,
      stream_options: { include_usage: true },
    })
    const chunks = await Array.fromAsync(stream)
    expect(chunks[0]?.choices[0]?.delta.role).toBe("assistant")
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("")).toBe(
      whole.choices[0]?.message.content ?? "missing",
    )
    expect(chunks.length).toBeGreaterThan(15)
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1)
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe("stop")
    expect(chunks.at(-1)?.choices).toEqual([])
    expect(chunks.at(-1)?.usage?.completion_tokens).toBe(whole.usage?.completion_tokens)
  })

  test("stream without the usage chunk when nobody asked for it", async () => {
    const response = await post({ model: "demo-small", messages, stream: true, max_tokens: 2 })
    expect(response.headers.get("content-type")).toStartWith("text/event-stream")
    const text = await response.text()
    expect(text).not.toContain("usage")
    expect(text).toEndWith("data: [DONE]\n\n")
  })

  test.each([
    ["max_tokens", { max_tokens: 5 }],
    ["max_completion_tokens", { max_completion_tokens: 5 }],
  ])("end at %s with finish_reason length", async (_name, limit) => {
    const { choices, usage } = await openai.chat.completions.create({
      model: "demo-large",
      messages,
      ...limit,
    })
    expect(choices[0]?.finish_reason).toBe("length")
    expect(usage?.completion_tokens).toBe(5)
  })

  test("make n choices, each with a text of its own", async () => {
    const { choices, usage } = await openai.chat.completions.create({
      model: "demo-small",
      messages,
      n: 3,
      max_tokens: 40,
    })
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(new Set(choices.map(({ message }) => message.content)).size).toBe(3)
    expect(usage?.completion_tokens).toBeLessThanOrEqual(120)
    expect(usage?.completion_tokens).toBeGreaterThan(80)
  })

  test("know the beginning of a prompt when they see it again: cached tokens, part of the prompt tokens (D3)", async () => {
    const long = { role: "user" as const, content: `Remember this: ${"the quick brown fox ".repeat(20)}` }
    const ask = async (last: string) => {
      const { usage } = await openai.chat.completions.create({
        model: "demo-small",
        messages: [long, { role: "user", content: last }],
        max_tokens: 1,
      })
      return { cached: usage?.prompt_tokens_details?.cached_tokens ?? -1, prompt: usage?.prompt_tokens ?? -1 }
    }
    expect((await ask("What was it?")).cached).toBe(0)
    const again = await ask("And how long was it?")
    expect(again.cached).toBeGreaterThan(80)
    expect(again.cached).toBeLessThan(again.prompt)
  })

  test("the two models differ in style", async () => {
    const texts = await Promise.all(
      ["demo-small", "demo-large"].map(async (model) => {
        const { choices } = await openai.chat.completions.create({ model, messages })
        return choices[0]?.message.content ?? ""
      }),
    )
    expect((texts[1] ?? "").length).toBeGreaterThan((texts[0] ?? "").length * 2)
  })

  test("refuse every credential but the gateway's", async () => {
    const response = await post({ model: "demo-small", messages }, "Bearer tg_live_anything")
    expect(response.status).toBe(401)
    expect(await response.json()).toMatchObject({ error: { code: "invalid_api_key", param: null } })
  })
})

describe("the demo's responses", () => {
  const input = "What is a reservation?"

  test("answer in JSON what a chat completion says, with valid usage (D66)", async () => {
    const { output_text, status, usage } = await openai.responses.create({ model: "demo-small", input })
    const { choices } = await openai.chat.completions.create({ model: "demo-small", messages })
    expect(output_text).toBe(choices[0]?.message.content ?? "missing")
    expect(status).toBe("completed")
    expect(readUsage(usage).state).toBe("valid")
    expect(usage?.output_tokens).toBeGreaterThan(20)
  })

  test("stream the same text, a word at a time, as the official client understands it", async () => {
    const whole = await openai.responses.create({ model: "demo-small", input })
    const stream = openai.responses.stream({ model: "demo-small", input: [{ role: "user", content: input }] })
    const types: string[] = []
    for await (const { type } of stream) types.push(type)
    expect(types.slice(0, 4)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
    ])
    expect(types.filter((type) => type === "response.output_text.delta").length).toBeGreaterThan(15)
    expect(types.at(-1)).toBe("response.completed")
    const { output_text, usage } = await stream.finalResponse()
    expect(output_text).toBe(whole.output_text)
    expect(usage?.output_tokens).toBe(whole.usage?.output_tokens)
  })

  test("end at max_output_tokens as incomplete", async () => {
    const limited = { model: "demo-large", input, max_output_tokens: 5 }
    const { status, incomplete_details, usage } = await openai.responses.create(limited)
    expect({ status, incomplete_details }).toEqual({
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
    })
    expect(usage?.output_tokens).toBe(5)
    const events = await Array.fromAsync(await openai.responses.create({ ...limited, stream: true }))
    expect(events.at(-1)?.type).toBe("response.incomplete")
  })
})

describe("the demo's embeddings", () => {
  const model = "demo-embedding"

  test("D67 are the same for the same text, of length 1, in both forms, with valid usage", async () => {
    const input = ["What is a reservation?", "What is a hold?", "What is a reservation?"]
    const { data, usage } = await openai.embeddings.create({ model, input })
    const [first = [], second = [], third = []] = data.map(({ embedding }) => embedding)
    expect([...first]).toEqual([...third])
    expect([...first]).not.toEqual([...second])
    expect(Math.hypot(...first)).toBeCloseTo(1, 5)
    const plain = await openai.embeddings.create({ model, input, encoding_format: "float" })
    expect(plain.data.map(({ embedding }) => embedding)).toEqual(data.map(({ embedding }) => [...embedding]))
    expect(embeddings.json.usageOf({ usage }, ANY_USAGE)).toMatchObject({ state: "valid" })
  })

  test("D67 take tokens, each as one, and the length that is asked for", async () => {
    const input = [[1, 2], [3]]
    const { data, usage } = await openai.embeddings.create({ model, input, dimensions: 5 })
    expect(data.map(({ embedding }) => embedding.length)).toEqual([5, 5])
    expect(usage).toEqual({ prompt_tokens: 3, total_tokens: 3 })
  })
})

test.each([
  ["chat/completions", 404, "model_not_found", "model", { model: "gpt-9" }],
  ["chat/completions", 404, "model_not_found", "model", { model: "constructor" }],
  ["chat/completions", 400, null, "messages", { messages: [] }],
  ["chat/completions", 400, null, "max_tokens", { max_tokens: 0 }],
  ["chat/completions", 400, null, "n", { n: 129 }],
  ["chat/completions", 400, "context_length_exceeded", "messages", { padding: "x".repeat(1_100_000) }],
  ["responses", 404, "model_not_found", "model", { input: "x", model: "gpt-9" }],
  ["responses", 400, null, "input", {}],
  ["responses", 400, null, "max_output_tokens", { input: "x", max_output_tokens: 0 }],
  ["embeddings", 404, "model_not_found", "model", { input: "x" }],
  ["embeddings", 400, null, "input", { model: "demo-embedding", input: [] }],
] as const)(
  "the demo's %s are refused with %d, %p, in OpenAI's shape: %s",
  async (path, status, code, param, change) => {
    const response = await post({ model: "demo-small", messages, ...change }, undefined, `/v1/${path}`)
    expect(response.status).toBe(status)
    expect(await response.json()).toEqual({
      error: { message: expect.any(String), type: "invalid_request_error", param, code },
    })
  },
)

describe("the demo's messages", () => {
  const defaultHeaders = { "x-api-key": PROVIDER_KEY }
  const anthropic = () =>
    new Anthropic({ baseURL: provider.url, apiKey: PROVIDER_KEY, maxRetries: 0, defaultHeaders })
  const question = { model: messagesModel, max_tokens: 1000, messages }

  test("say the same in JSON and as a stream, with valid usage (D64)", async () => {
    const whole = await anthropic().messages.create(question)
    const streamed = await anthropic().messages.stream(question).finalMessage()
    expect(whole.content).toMatchObject([{ type: "text", text: expect.stringContaining("money set aside") }])
    expect(streamed.content).toMatchObject(whole.content)
    expect(whole.stop_reason).toBe("end_turn")
    expect(streamed.stop_reason).toBe("end_turn")
    expect(readUsage(whole.usage).state).toBe("valid")
    expect(streamed.usage.output_tokens).toBe(whole.usage.output_tokens)
    const prompts = [whole, streamed].map(
      ({ usage }) => usage.input_tokens + (usage.cache_read_input_tokens ?? 0),
    )
    expect(prompts[1]).toBe(prompts[0])
  })

  test("answer what an agent asks last, and end at max_tokens", async () => {
    const content = [
      { type: "text" as const, text: "<system-reminder>money</system-reminder>" },
      { type: "text" as const, text: "What is a stream?" },
    ]
    const { content: said, ...rest } = await anthropic().messages.create({
      ...question,
      max_tokens: 9,
      messages: [{ role: "user", content }],
    })
    expect(said).toMatchObject([{ text: expect.stringContaining("“What is a stream?”") }])
    expect(rest).toMatchObject({ stop_reason: "max_tokens", usage: { output_tokens: 9 } })
  })

  test.each([
    ["an unknown model", 404, "not_found_error", { model: "claude" }],
    ["no limit", 400, "invalid_request_error", { max_tokens: undefined }],
  ] as const)("refuse %s with %d in Anthropic's shape", async (_name, status, type, change) => {
    const body = { ...question, ...change }
    const error = await anthropic()
      .post("/v1/messages", { body })
      .then(
        () => null,
        (thrown: unknown) => thrown,
      )
    expect(error).toMatchObject({ status, error: { type: "error", error: { type } } })
  })
})

describe("the demo's token counts", () => {
  test("count what a chat call would be charged for as its prompt", async () => {
    const response = await count({ model: messagesModel, messages })
    const { usage } = await openai.chat.completions.create({ model: "demo-small", messages, max_tokens: 1 })
    expect(await response.json()).toEqual({ input_tokens: usage?.prompt_tokens ?? -1 })
  })

  test("count instructions and tools too, deterministically", async () => {
    const plain = { model: messagesModel, messages }
    const more = {
      ...plain,
      system: [{ type: "text", text: "Be brief." }],
      tools: [{ name: "add", input_schema: {} }],
    }
    const counts = await Promise.all([plain, more, more].map(async (body) => tokensIn(await count(body))))
    expect(counts[1]).toBeGreaterThan(counts[0] ?? Number.NaN)
    expect(counts[2]).toEqual(counts[1])
  })

  test.each([
    ["another key", 401, "authentication_error", { "x-api-key": "nobody" }, {}],
    ["no version", 400, "invalid_request_error", { "anthropic-version": undefined }, {}],
    ["an unknown model", 404, "not_found_error", {}, { model: "claude" }],
    ["no messages", 400, "invalid_request_error", {}, { messages: undefined }],
  ] as const)("refuse %s with %d in Anthropic's shape", async (_name, status, type, headers, change) => {
    const response = await count({ model: messagesModel, messages, ...change }, headers)
    expect(response.status).toBe(status)
    expect(await response.json()).toMatchObject({
      type: "error",
      error: { type, message: expect.any(String) },
    })
  })
})

function post(body: object, authorization = `Bearer ${PROVIDER_KEY}`, path = "/v1/chat/completions") {
  return fetch(`${provider.url}${path}`, {
    method: "POST",
    headers: { authorization, "content-type": "application/json" },
    body: JSON.stringify(body),
  })
}

function count(body: object, change: Record<string, string | undefined> = {}): Promise<Response> {
  const headers = { "x-api-key": PROVIDER_KEY, "anthropic-version": "2023-06-01", ...change }
  return fetch(`${provider.url}/v1/messages/count_tokens`, {
    method: "POST",
    headers: Object.entries(headers).flatMap(([name, value]): [string, string][] =>
      value === undefined ? [] : [[name, value]],
    ),
    body: JSON.stringify(body),
  })
}

async function tokensIn(response: Response): Promise<number> {
  const answer: unknown = await response.json()
  return typeof answer === "object" && answer !== null && "input_tokens" in answer
    ? Number(answer.input_tokens)
    : Number.NaN
}

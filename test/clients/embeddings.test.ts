import { describe, expect, test } from "bun:test"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { OpenAIEmbeddings } from "@langchain/openai"
import { embedMany } from "ai"
import OpenAI from "openai"
import { isObject } from "../../src/wire/usage.ts"
import { type Exchange, embeddingList, json, type Script } from "../support/provider.ts"
import { type Cell, testStage } from "./stage.ts"

/** D67: the clients that make embeddings, as they are by default. */

const stage = await testStage(8)

const TEXTS = ["The food was delicious.", "The waiter was friendly."]
const VECTORS = [
  [0.25, -0.5, 0],
  [0.25, -0.5, 1],
]

/** Answers like a provider: one vector for each input, in the form that is asked for. */
const vectors: Script = async (exchange: Exchange) => {
  const asked = isObject(exchange.request.json) ? exchange.request.json : {}
  const count = Array.isArray(asked.input) ? asked.input.length : 1
  const list = embeddingList(count)
  const data = list.data.map((entry) => ({
    ...entry,
    embedding:
      asked.encoding_format === "base64"
        ? Buffer.from(Float32Array.from(entry.embedding).buffer).toString("base64")
        : entry.embedding,
  }))
  await json(200, { ...list, data })(exchange)
}

/** 9 tokens at 1,000 nano-USD. */
const CHARGED = {
  operation: "embeddings",
  stream: false,
  state: "settled",
  basis: "usage",
  charge: "0.000009",
  usage: { prompt_tokens: 9, cached_tokens: 0, completion_tokens: 0 },
}

async function charges(cell: Cell, expected: object = CHARGED): Promise<void> {
  expect(await cell.calls()).toMatchObject([expected])
}

describe("the client of OpenAI", () => {
  test("asks for base64 by itself, and hears the numbers", async () => {
    const cell = await stage.cell()
    cell.answers(vectors)
    const client = new OpenAI({ baseURL: `${cell.url}/v1`, apiKey: cell.key })
    const { data, usage } = await client.embeddings.create({ model: cell.model, input: TEXTS })
    expect(data.map(({ embedding }) => [...embedding])).toEqual(VECTORS)
    expect(usage).toEqual({ prompt_tokens: 9, total_tokens: 9 })
    expect(cell.exchanges[0]?.request.json).toMatchObject({ encoding_format: "base64", input: TEXTS })
    await charges(cell)
  })

  test("sends tokens, and reads the error of a model that makes none", async () => {
    const cell = await stage.cell()
    cell.answers(vectors)
    const client = new OpenAI({ baseURL: cell.url, apiKey: cell.key })
    const input = [[791, 3691], [574]]
    const list = await client.embeddings.create({ model: cell.model, input, encoding_format: "float" })
    expect(list.data.map(({ embedding }) => embedding)).toEqual(VECTORS)
    const refused: unknown = await client.embeddings
      .create({ model: cell.counter, input })
      .catch((error) => error)
    expect(refused).toMatchObject({ status: 403, code: "model_not_allowed", param: "model" })
    await charges(cell)
  })
})

test("LangChain", async () => {
  const cell = await stage.cell()
  cell.answers(vectors)
  const client = new OpenAIEmbeddings({
    model: cell.model,
    apiKey: cell.key,
    configuration: { baseURL: `${cell.url}/v1` },
  })
  expect((await client.embedDocuments(TEXTS)).map((vector) => [...vector])).toEqual(VECTORS)
  await charges(cell)
})

test("the AI SDK", async () => {
  const cell = await stage.cell()
  cell.answers(vectors)
  const provider = createOpenAICompatible({
    name: "tollgate",
    baseURL: `${cell.url}/v1`,
    apiKey: cell.key,
  })
  const { embeddings, usage } = await embedMany({
    model: provider.embeddingModel(cell.model),
    values: TEXTS,
  })
  expect({ embeddings, tokens: usage.tokens }).toEqual({ embeddings: VECTORS, tokens: 9 })
  await charges(cell)
})

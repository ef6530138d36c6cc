import { describe, expect, test } from "bun:test"
import { encode as encodeSmall } from "gpt-tokenizer/encoding/cl100k_base"
import { encode as encodeLarge } from "gpt-tokenizer/encoding/o200k_base"
import { describe as describeRequest } from "../../src/admission/describe.ts"
import { promptBound } from "../../src/admission/quote.ts"
import { messages } from "../../src/operations/messages.ts"
import { PICTURE_ELSEWHERE } from "../../src/wire/media.ts"
import { parseMessages } from "../../src/wire/requests.ts"
import { aModel, quoteOf } from "./model.ts"

const ROOT = `${import.meta.dir}/../..`
const file = async (path: string, bytes: number) => (await Bun.file(`${ROOT}/${path}`).text()).slice(0, bytes)
const CHINESE =
  "网关在模型提供商和您的程序之间。每次调用之前，它会预留可能花费的最大金额；调用结束后，按照提供商报告的用量结算一次，其余部分被释放。"
const RUSSIAN =
  "Шлюз стоит между вашими программами и поставщиками моделей. Перед каждым вызовом он резервирует наибольшую сумму, которую может стоить вызов."

/** Texts such as agents send, in the order of the table. */
const TEXTS: readonly (readonly [kind: string, text: string])[] = [
  ["code", await file("drizzle/0000_books.sql", 8_000)],
  ["prose in English", await file("docs/specification.md", 8_000)],
  ["results of tools in JSON", await file("test/fixtures/litellm-prices.json", 8_000)],
  ["prose in Chinese", CHINESE.repeat(20)],
  ["prose in Russian", RUSSIAN.repeat(20)],
  [
    "random identifiers",
    Array.from({ length: 300 }, (_, at) => Bun.SHA256.hash(String(at), "hex")).join("\n"),
  ],
]

const worst = aModel({ family: "messages" })
const likely = aModel({ family: "messages", hold: "likely" })
const request = (content: string) =>
  parseMessages({ model: "m", max_tokens: 100, messages: [{ role: "user", content }] })

describe("D68 what is held for the texts of agents, as docs/billing.md says", () => {
  const rows = TEXTS.map(([kind, text]) => {
    const bytes = Buffer.byteLength(text)
    const tokens = [encodeLarge(text).length, encodeSmall(text).length]
    const densest = Math.max(...tokens)
    const per = (count: number) => (bytes / count).toFixed(1)
    const held = (share: number) => (bytes / share / densest).toFixed(1)
    return {
      kind,
      densest,
      text,
      row: `| ${kind} | ${tokens.map(per).join(" and ")} | ${held(1)} | ${held(2)} |`,
    }
  })

  test("the table", async () => {
    const page = await file("docs/billing.md", 1_000_000)
    expect(rows.map(({ row }) => row).filter((row) => !page.includes(row))).toEqual([])
  })

  test.each(rows)("$kind", ({ kind, text, densest }) => {
    const { prompt_tokens_bound } = quoteOf(messages, request(text), likely)
    if (kind === "random identifiers") expect(prompt_tokens_bound).toBeLessThan(densest)
    else expect(prompt_tokens_bound).toBeGreaterThanOrEqual(densest)
    expect(quoteOf(messages, request(text), worst).prompt_tokens_bound).toBeGreaterThanOrEqual(densest)
  })
})

describe("D68 a likely hold", () => {
  const described = describeRequest("messages", messages.texts(request("x")))
  const prompt = { ...described, bytes: 1_001, tokens: 7, media: [PICTURE_ELSEWHERE] }

  test("counts two bytes of text as one token, and all else as before", () => {
    expect(promptBound(prompt, worst)).toBe(1_001 + 7 + 4_096)
    expect(promptBound(prompt, likely)).toBe(501 + 7 + 4_096)
    expect(promptBound(prompt, { ...likely, context_tokens: 500 })).toBe(500)
  })

  test("believes a provider as much as before (D1), and holds the whole output", () => {
    const [held, more] = [likely, worst].map((model) => quoteOf(messages, request("x".repeat(1_000)), model))
    expect(held?.limits).toEqual(more?.limits ?? { prompt_tokens: 0, completion_tokens: 0 })
    expect(held?.output_tokens_bound).toBe(100)
    // 1,030 bytes of the messages' JSON text: 515 tokens at 250,000 pico-USD, and 100 of output at 2,000,000.
    expect(held?.amount_nano).toBe(328_750n)
    expect(more?.amount_nano).toBe(457_500n)
  })
})

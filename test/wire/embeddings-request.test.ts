import { describe, expect, test } from "bun:test"
import { GatewayError } from "../../src/errors.ts"
import { readJsonBody } from "../../src/wire/json.ts"
import { countedTokens, type EmbeddingsRequest, parseEmbeddings } from "../../src/wire/requests.ts"

const INPUT = "a string, a list of strings, a list of token numbers, or a list of such lists, not empty"

function faultOf(body: unknown): string | null {
  try {
    parseEmbeddings(body)
    return null
  } catch (error) {
    if (error instanceof GatewayError && error.code === "invalid_request") return error.message
    throw error
  }
}

describe("D67 what a request for embeddings may be", () => {
  const rows: [string, object, string | null][] = [
    ["a text", { input: "hello" }, null],
    ["an empty text, which the provider judges", { input: "" }, null],
    ["texts", { input: ["a", "b"] }, null],
    ["tokens", { input: [0, 791, 100_000] }, null],
    ["lists of tokens", { input: [[1], [2, 3]] }, null],
    ["fields of the provider", { dimensions: 5, encoding_format: "base64", user: "u", task: "x" }, null],
    ["no stream", { stream: false }, null],
    ["no input", { input: undefined }, `\`input\`: expected ${INPUT}.`],
    ["an empty list", { input: [] }, `\`input\`: expected ${INPUT}.`],
    ["an empty list of tokens", { input: [[1], []] }, `\`input\`: expected ${INPUT}.`],
    ["an object", { input: { text: "hello" } }, `\`input\`: expected ${INPUT}.`],
    ["parts", { input: [{ type: "text", text: "hello" }] }, `\`input\`: expected ${INPUT}.`],
    ["texts and tokens", { input: ["a", 1] }, `\`input\`: expected ${INPUT}.`],
    ["a token that is no token", { input: [-1] }, `\`input\`: expected ${INPUT}.`],
    ["half a token", { input: [1.5] }, `\`input\`: expected ${INPUT}.`],
    ["a stream", { stream: true }, "`stream`: expected false or null, because embeddings are not streamed."],
    ["no model", { model: undefined }, "`model`: expected a string of 1 to 256 characters."],
  ]
  test.each(rows)("%s", (_, fields, fault) => {
    expect(faultOf({ model: "m", input: "hello", ...fields })).toBe(fault)
  })

  test("a token that a double cannot hold is none", () => {
    const body = readJsonBody(new TextEncoder().encode('{"model":"m","input":[12345678901234567890]}'))
    expect(faultOf(body)).toContain("`input`")
  })
})

test.each<[EmbeddingsRequest["input"], number | null]>([
  ["hello", null],
  [["a", "b"], null],
  [[1, 2, 3], 3],
  [[[1], [2, 3]], 3],
])("D67 tokens in %j: %p", (input, tokens) => {
  expect(countedTokens(input)).toBe(tokens)
})

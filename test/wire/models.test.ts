import { expect, test } from "bun:test"
import { Value, ValueErrorType } from "@sinclair/typebox/value"
import { ModelList, modelList } from "../../src/wire/models.ts"

test("D23 one shape for both SDK families, in the order of the configuration", () => {
  const list = modelList([
    { name: "b", operations: ["chat", "embeddings"] },
    { name: "a", operations: ["embeddings"] },
  ])
  expect(list).toEqual({
    object: "list",
    data: (["b", "a"] as const).map((id) => ({
      id,
      object: "model",
      created: 0,
      owned_by: "tollgate",
      type: "model",
      display_name: id,
      created_at: "1970-01-01T00:00:00Z",
      operations: id === "b" ? ["chat", "embeddings"] : ["embeddings"],
    })),
    has_more: false,
    first_id: "b",
    last_id: "a",
  })
})

test("D23 the two forms of a model's date are the same moment", () => {
  const [entry] = modelList([{ name: "m", operations: ["chat"] }]).data
  expect(entry && Date.parse(entry.created_at) / 1000).toBe(entry?.created ?? Number.NaN)
})

test("D23 an empty list has no first and no last", () => {
  expect(modelList([])).toEqual({ object: "list", data: [], has_more: false, first_id: null, last_id: null })
})

test("D23 what is listed fits the documented schema", () => {
  const list = modelList([{ name: "m", operations: ["chat"] }])
  const errors = [...Value.Errors(ModelList, list)].filter(
    ({ type }) => type !== ValueErrorType.StringFormatUnknown,
  )
  expect(errors).toEqual([])
})

import { describe, expect, test } from "bun:test"
import { Type } from "@sinclair/typebox"
import { inDialect } from "../../src/routes/reference/dialect.ts"

describe("a TypeBox schema in OpenAPI 3.0's dialect", () => {
  const rows = [
    [
      "a plain string",
      Type.String({ minLength: 1, description: "x" }),
      { type: "string", minLength: 1, description: "x" },
    ],
    ["one literal", Type.Literal("error"), { type: "string", enum: ["error"] }],
    [
      "literals become one enum",
      Type.Union([Type.Literal("open"), Type.Literal("settled")]),
      { type: "string", enum: ["open", "settled"] },
    ],
    [
      "nullable literals list null, as 3.0.3 asks",
      Type.Union([Type.Literal("open"), Type.Null()]),
      { type: "string", enum: ["open", null], nullable: true },
    ],
    [
      "a nullable word lists null too",
      Type.Union([Type.String({ enum: ["a"] }), Type.Null()]),
      { type: "string", enum: ["a", null], nullable: true },
    ],
    [
      "words for the validation's messages stay inside",
      Type.String({ "x-expected": "a string" }),
      { type: "string" },
    ],
    ["a nullable string", Type.Union([Type.String(), Type.Null()]), { type: "string", nullable: true }],
    [
      "alternatives",
      Type.Union([Type.String(), Type.Array(Type.Integer()), Type.Null()]),
      { anyOf: [{ type: "string" }, { type: "array", items: { type: "integer" } }], nullable: true },
    ],
    ["only null", Type.Null(), { nullable: true, enum: [null] }],
    [
      "an exclusive bound",
      Type.Number({ exclusiveMinimum: 0 }),
      { type: "number", minimum: 0, exclusiveMinimum: true },
    ],
    ["anything", Type.Unknown(), {}],
    ["examples", Type.String({ examples: ["a", "b"] }), { type: "string", example: "a" }],
    [
      "an object, open, with an optional property",
      Type.Object({ a: Type.String(), b: Type.Optional(Type.Boolean()) }, { additionalProperties: true }),
      {
        type: "object",
        required: ["a"],
        properties: { a: { type: "string" }, b: { type: "boolean" } },
        additionalProperties: true,
      },
    ],
    [
      "a record",
      Type.Record(Type.String(), Type.Integer()),
      { type: "object", additionalProperties: { type: "integer" } },
    ],
  ] as const
  test.each(rows)("%s", (_name, schema, expected) => {
    expect(JSON.parse(JSON.stringify(schema, inDialect))).toEqual(expected)
  })
})

import { expect, test } from "bun:test"
import { describe } from "../../src/admission/describe.ts"
import { GatewayError } from "../../src/errors.ts"
import { operationNames } from "../../src/wire/call.ts"
import { FIELDS, type FieldRow, TOOLS } from "../../src/wire/fields.ts"
import { FieldTexts, readJsonBody } from "../../src/wire/json.ts"

const ROWS: readonly FieldRow[] = Object.values(FIELDS).flat()
const NAMES = new Set([...ROWS, ...TOOLS].flatMap(([names]) => names.split(" ")))
const VALUES = [
  "1e400",
  "12345678901234567890",
  '{"toString":1,"valueOf":1}',
  '{"type":1e400,"mode":{"toString":1},"ttl":[1e400]}',
  '[1e400,[{}],{"__proto__":{"type":1}}]',
  '"\\ud800"',
]

/** The texts of requests with a field at the top, in a request within it, in a part and in a tool. */
const placesOf = (field: string) => [
  `{${field}}`,
  `{"extra_body":{${field}}}`,
  `{"messages":[{"content":[{"type":"x","image":{${field}},${field}}]}]}`,
  `{"tools":[{"type":"function",${field}}],"reasoning":{${field}},"cache_control":{${field}}}`,
]

test.each(operationNames)(
  "D15 no value of a known field fails otherwise than as a fault: %s",
  (operation) => {
    for (const name of NAMES)
      for (const text of VALUES.flatMap((value) => placesOf(`${JSON.stringify(name)}:${value}`))) {
        const texts = new FieldTexts(readJsonBody(Buffer.from(text)))
        try {
          describe(operation, texts)
        } catch (error) {
          expect(error, text).toBeInstanceOf(GatewayError)
        }
      }
    expect(NAMES.size).toBeGreaterThan(200)
  },
)

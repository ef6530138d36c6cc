import { describe, expect, test } from "bun:test"
import { bodyWithCost } from "../../src/meter/cost.ts"

const encoder = new TextEncoder()
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

describe("D49 the cost in a JSON answer", () => {
  test.each<[string, string, bigint, string]>([
    ["behind the tokens", '{"usage":{"a":1},"z":-0}', 310_000n, '{"usage":{"a":1,"cost":0.00031},"z":-0}'],
    ["one nano-dollar", '{"usage":{"a":1}}', 1n, '{"usage":{"a":1,"cost":0.000000001}}'],
    ["nothing", '{"usage":{"a":1}}', 0n, '{"usage":{"a":1,"cost":0}}'],
    ["a fortune", '{"usage":{}}', 12_345_678_901_234_567n, '{"usage":{"cost":12345678.901234567}}'],
    [
      "in place of the provider's own",
      '{"usage":{"cost":9,"a":1}}',
      5n,
      '{"usage":{"cost":0.000000005,"a":1}}',
    ],
    [
      "in the usage that counts",
      '{"usage":1,"usage":{"a":1}}',
      5n,
      '{"usage":1,"usage":{"a":1,"cost":0.000000005}}',
    ],
    [
      "all else byte for byte",
      '\uFEFF { "n" : 1e400, "seed":12345678901234567890,\n"usage" : {"a" :1 } ,"s":"é\\u00e9" }\n',
      5n,
      '\uFEFF { "n" : 1e400, "seed":12345678901234567890,\n"usage" : {"a" :1 ,"cost":0.000000005} ,"s":"é\\u00e9" }\n',
    ],
  ])("%s", (_, body, charge_nano, expected) => {
    expect(decoder.decode(bodyWithCost(encoder.encode(body), charge_nano))).toBe(expected)
  })
})

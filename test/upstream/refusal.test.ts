import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { errorBody, errorResponse } from "../../src/errors.ts"
import { isBodyShown, type ProviderRefusal, redacted, refusalError } from "../../src/upstream/refusal.ts"
import { API_KEY } from "./calling.ts"

const BODY = JSON.stringify({
  error: {
    message: "Too long.",
    type: "invalid_request_error",
    param: "messages[0].content",
    code: "too_long",
  },
})

function told(refusal: Partial<ProviderRefusal> & { readonly status: number }) {
  const error = refusalError({ retry_after: null, body: BODY, secrets: [API_KEY], ...refusal })
  return { status: error.status, ...errorBody(error, "id-1").error }
}

const SPOKEN = {
  message: "Too long.",
  type: "invalid_request_error",
  param: "messages[0].content",
  code: "too_long",
}
const FAILED = {
  message: "The provider failed to complete the request. Retry the request.",
  type: "api_error",
  param: null,
  code: "upstream_error",
}
const LATE = {
  message: "The provider did not answer in time. Retry with streaming, or with a lower max_tokens.",
  type: "timeout_error",
  param: null,
  code: "upstream_timeout",
}
const BUSY = {
  message: "Too many requests. Wait before you retry.",
  type: "rate_limit_error",
  param: null,
  code: "rate_limited",
}
const AWAY = {
  message: "No provider for this model is available. Retry in a few seconds.",
  type: "overloaded_error",
  param: null,
  code: "upstream_unavailable",
}

test("D17 a long message is cut before it is searched, and shows no part of a credential", () => {
  const long = "sk-".repeat(3_000)
  const messages = [`${"x".repeat(65_530)}${long}${"x".repeat(8 * 1024 ** 2)}`, `${long.repeat(20)}x`]
  for (const message of messages) {
    const error = refusalError({
      status: 400,
      retry_after: null,
      body: JSON.stringify({ error: { message } }),
      secrets: [long],
    })
    expect(errorBody(error, "id-1").error.message).not.toContain("sk-")
  }
})

describe("D17 what a client is told of a refusal", () => {
  const rows: [theirs: number, ours: number, told: Omit<ReturnType<typeof told>, "status">][] = [
    [400, 400, SPOKEN],
    [401, 502, FAILED],
    [402, 502, FAILED],
    [403, 502, FAILED],
    [404, 404, SPOKEN],
    [408, 504, LATE],
    [413, 413, SPOKEN],
    [418, 400, SPOKEN],
    [422, 400, SPOKEN],
    [429, 429, BUSY],
    [499, 400, SPOKEN],
    [500, 502, FAILED],
    [501, 502, FAILED],
    [503, 503, AWAY],
    [504, 504, LATE],
    [529, 503, AWAY],
    [300, 502, FAILED],
    [304, 502, FAILED],
    [99, 502, FAILED],
    [200, 502, FAILED],
    [600, 502, FAILED],
  ]
  test.each(rows)("%d -> %d", (theirs, ours, expected) => {
    expect(told({ status: theirs })).toEqual({ status: ours, ...expected })
  })

  test("a body is read for exactly the statuses whose words pass", () => {
    const read = rows.filter(([theirs]) => isBodyShown(theirs)).map(([theirs]) => theirs)
    expect(read).toEqual([400, 404, 413, 418, 422, 499])
  })
})

describe("D17 Retry-After", () => {
  const rows: [status: number, passed: string | null, sent: string | null][] = [
    [429, "20", "20"],
    [429, null, null],
    [503, "7", "7"],
    [529, "7", "7"],
    [503, null, "2"],
    [500, "20", null],
    [400, "20", null],
    [401, "20", null],
  ]
  test.each(rows)("%d with %p -> %p", (status, retry_after, sent) => {
    const error = refusalError({ status, retry_after, body: "", secrets: [] })
    expect(errorResponse(error, "id-1").headers.get("retry-after")).toBe(sent)
  })
})

describe("D17 the provider's words, in the shapes providers use", () => {
  const rows: [shape: string, body: unknown, told: object][] = [
    [
      "both families",
      { type: "error", error: { type: "not_found_error", message: "No." } },
      { message: "No.", type: "not_found_error" },
    ],
    [
      "a bare object",
      { object: "error", message: "No.", type: "BadRequestError", code: 400 },
      { message: "No.", type: "BadRequestError", code: "invalid_request" },
    ],
    ["a text", { error: "No." }, { message: "No." }],
    ["a detail", { detail: "No." }, { message: "No." }],
    [
      "a list of faults (FastAPI)",
      {
        detail: [
          { type: "missing", loc: ["body", "messages", 0, "role"], msg: "Field required", input: "secret" },
          { type: "odd", msg: "Too odd", ctx: { secret: 1 } },
          "no fault",
          { loc: ["body"], msg: "The fourth" },
        ],
      },
      { message: "body.messages[0].role: Field required; Too odd", code: "invalid_request" },
    ],
    [
      "a list of faults below the message (Mistral)",
      {
        object: "error",
        message: { detail: [{ loc: ["body", "seed"], msg: "Extra inputs are not permitted", input: 7 }] },
        type: "invalid_request_error",
        code: null,
      },
      { message: "body.seed: Extra inputs are not permitted", type: "invalid_request_error" },
    ],
    ["first of a list", [{ error: { message: "No.", status: "INVALID_ARGUMENT" } }], { message: "No." }],
  ]
  test.each(rows)("%s", (_shape, body, expected) => {
    expect(told({ status: 400, body: JSON.stringify(body) })).toMatchObject(expected)
  })
})

describe("D17 nothing else of the body passes", () => {
  const own = {
    message: "The provider refused the request as invalid. Compare it with the provider's API reference.",
    type: "invalid_request_error",
    param: null,
    code: "invalid_request",
  }
  const rows: [what: string, body: string][] = [
    ["HTML", "<html><body>secret host 10.0.0.1</body></html>"],
    ["truncated JSON", '{"error":{"message":"secr'],
    ["null", "null"],
    ["a list in place of the error", '{"error":["secret"]}'],
    ["a message that is no text", '{"error":{"message":{"secret":1}}}'],
    ["a blank message", '{"error":{"message":"  \\n"}}'],
    ["faults without words", '{"detail":[{"loc":["body"],"msg":7,"input":"secret"},"secret",null]}'],
    ["other fields", '{"error":{"stack":"secret","org":"org-1"},"request":"secret"}'],
    ["a code that is a number", '{"error":{"code":1234}}'],
    ["a long code", `{"error":{"code":"${"c".repeat(65)}"}}`],
    ["a param that is a sentence", '{"error":{"param":"the secret, here"}}'],
    ["a long param", `{"error":{"param":"${"p".repeat(129)}"}}`],
  ]
  test.each(rows)("%s", (_what, body) => {
    expect(told({ status: 400, body })).toEqual({ status: 400, ...own })
  })

  test.each([
    [
      404,
      "The provider did not find what this request names. Ask the operator to check the model's configuration.",
    ],
    [413, "The request is too large for the provider. Send a smaller request."],
  ])("%d without words has our own", (status, message) => {
    expect(told({ status, body: "" }).message).toBe(message)
  })
})

describe("D17 at most 1,000 characters", () => {
  const rows: [characters: number, shown: number][] = [
    [999, 999],
    [1_000, 1_000],
    [1_001, 1_000],
    [60_000, 1_000],
  ]
  test.each(rows)("%d -> %d", (characters, shown) => {
    for (const character of ["x", "é", "😀"]) {
      const { message } = told({
        status: 400,
        body: JSON.stringify({ error: { message: character.repeat(characters) } }),
      })
      expect([...message]).toHaveLength(shown)
      expect(message.isWellFormed()).toBe(true)
    }
  })
})

describe("an upstream's credential is never shown", () => {
  test("it is taken out of the message", () => {
    const body = JSON.stringify({ error: { message: `Key ${API_KEY} and ${API_KEY}!` } })
    expect(told({ status: 400, body }).message).toBe("Key [redacted] and [redacted]!")
  })

  test("D17 a short one is taken out where it is a word of its own", () => {
    expect(redacted("check k, k-1 and (k) ok", ["k"])).toBe(
      "check [redacted], [redacted]-1 and ([redacted]) ok",
    )
  })

  test("D17 a text of nothing but a short one is searched in time that grows as its length", () => {
    const began_ms = performance.now()
    expect(redacted("EMPTY ".repeat(170_000), ["EMPTY"])).toBe("[redacted] ".repeat(170_000))
    expect(redacted("EMPTYEMPTY EMPTYS", ["EMPTY"])).toBe("[redacted][redacted] EMPTYS")
    expect(performance.now() - began_ms).toBeLessThan(3_000)
  })

  test("it is not shown in part where the message is cut", () => {
    const message = `${"x".repeat(995)}${API_KEY}`
    expect(told({ status: 400, body: JSON.stringify({ error: { message } }) }).message).not.toContain("sk-")
  })

  test("in any field, at any place, with any status", () => {
    const text = fc.tuple(fc.string(), fc.string()).map(([before, after]) => before + API_KEY + after)
    const any = fc.oneof(text, fc.constant(API_KEY), fc.constant(`a.${API_KEY}`), fc.string())
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 999 }),
        any,
        any,
        any,
        any,
        (status, message, type, code, param) => {
          const body = JSON.stringify({ error: { message, type, code, param } })
          expect(JSON.stringify(told({ status, body }))).not.toContain(API_KEY)
        },
      ),
    )
  })

  test("an empty credential redacts nothing", () => {
    expect(told({ status: 400, secrets: [""] }).message).toBe("Too long.")
  })
})

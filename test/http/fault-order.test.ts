import { describe, test } from "bun:test"
import fc from "fast-check"
import { makeKey } from "../../src/admission/key.ts"
import { until } from "../support/gateway.ts"
import { type Code, expectError, type Said } from "./errors.ts"
import { CANARY, chatBody, countBody, HELD, testHarness } from "./harness.ts"

const BODY_BYTES = 16 * 1024

const harness = await testHarness({ limits: { body: `${BODY_BYTES / 1024}KiB` } })
const rich = await harness.account()
const poor = await harness.account("0")
const suspended = await harness.key(rich.id, {})
await harness.gateway.admin("PATCH", `/keys/${suspended.id}`, { suspended: true })

/** A request as its parts, each of which can be at fault. */
interface Parts {
  readonly target: string
  readonly method: string
  readonly key: string
  readonly media_type: string
  readonly version: string | null
  readonly fields: object
  /** Turns the JSON text into what is sent. */
  text(json: string): string
  /** Bytes of white space after the body. */
  readonly padding: number
}

interface Fault {
  readonly name: string
  readonly code: Code
  readonly said?: Said
  spoil(parts: Parts): Partial<Parts>
}

/** In the order of D30. */
const FAULTS: readonly Fault[] = [
  { name: "route", code: "not_found", spoil: ({ target }) => ({ target: `${target}/nothing` }) },
  {
    name: "method",
    code: "method_not_allowed",
    said: { headers: { allow: "POST" } },
    spoil: () => ({ method: "PUT" }),
  },
  { name: "credential's form", code: "invalid_api_key", spoil: () => ({ key: `sk-${CANARY}` }) },
  { name: "key", code: "invalid_api_key", spoil: () => ({ key: makeKey() }) },
  { name: "suspension", code: "key_suspended", spoil: () => ({ key: suspended.key }) },
  {
    name: "content type",
    code: "unsupported_media_type",
    spoil: () => ({ media_type: "text/plain" }),
  },
  { name: "size", code: "request_too_large", spoil: () => ({ padding: BODY_BYTES }) },
  {
    name: "version header",
    code: "invalid_request",
    said: { param: "anthropic-version" },
    spoil: () => ({ version: "2023-02-30" }),
  },
  { name: "JSON", code: "invalid_request", spoil: () => ({ text: (json) => json.slice(1) }) },
  {
    name: "schema",
    code: "invalid_request",
    said: { param: "messages" },
    spoil: ({ fields }) => ({ fields: { ...fields, messages: [] } }),
  },
  {
    name: "model",
    code: "model_not_found",
    said: { param: "model" },
    spoil: ({ fields }) => ({ fields: { ...fields, model: CANARY } }),
  },
  { name: "balance", code: "insufficient_balance", spoil: () => ({ key: poor.key }) },
]

/** One operation as a client asks for it. */
interface Entry {
  readonly target: string
  readonly faults: readonly Fault[]
  headers(parts: Parts): string[]
  body(fields: object): object
}

const entries: readonly Entry[] = [
  {
    target: "/v1/chat/completions",
    faults: FAULTS.filter(({ name }) => name !== "version header").map((fault) =>
      fault.name === "balance" ? { ...fault, said: { fields: { needed: HELD, available: "0" } } } : fault,
    ),
    headers: ({ key }) => [`authorization: Bearer ${key}`],
    body: chatBody,
  },
  {
    target: "/v1/messages/count_tokens",
    faults: FAULTS,
    headers: ({ key, version }) => [`x-api-key: ${key}`, `anthropic-version: ${version}`],
    body: countBody,
  },
]

/** Sends a request with exactly these faults, given in the order of D30; the first is the one that is reported. */
async function expectFirst({ target, headers, body }: Entry, faults: readonly Fault[]): Promise<void> {
  let parts: Parts = {
    target,
    method: "POST",
    key: rich.key,
    media_type: "application/json",
    version: "2023-06-01",
    fields: {},
    text: (json) => json,
    padding: 0,
  }
  // Where two faults are one part's, the first of D30 is to have the last word.
  for (const fault of [...faults].reverse()) parts = { ...parts, ...fault.spoil(parts) }
  const answer = await harness.ask({
    method: parts.method,
    target: parts.target,
    headers: [...headers(parts), `content-type: ${parts.media_type}`],
    body: parts.text(JSON.stringify(body(parts.fields))) + " ".repeat(parts.padding),
  })
  const [first] = faults
  if (first === undefined) throw new Error("a request without a fault")
  expectError(answer, first.code, first.said)
}

describe.each(entries)("D30 $target", (entry) => {
  test.each(entry.faults)("$name alone", async (fault) => {
    await harness.untouched(rich.id, () => expectFirst(entry, [fault]))
  })

  const pairs = entry.faults.flatMap((first, at) =>
    entry.faults
      .slice(at + 1)
      .map((second) => ({ name: `${first.name} before ${second.name}`, first, second })),
  )
  test.each(pairs)("$name", ({ first, second }) => expectFirst(entry, [first, second]))

  test("any set of faults: the first in the order", async () => {
    const sets = fc.subarray([...entry.faults], { minLength: 3 })
    await harness.untouched(rich.id, () =>
      fc.assert(
        fc.asyncProperty(sets, (faults) => expectFirst(entry, faults)),
        { numRuns: 15 },
      ),
    )
  })
})

describe("D30 a key that was good once", () => {
  test("expired, without a balance: 401", async () => {
    const expires_at = new Date(Date.now() + 300).toISOString()
    const { key } = await harness.key(poor.id, { expires_at })
    const answer = await until(
      () => harness.chat(key),
      ({ status }) => status !== 402,
    )
    expectError(answer, "invalid_api_key")
    expectError(await harness.count(key), "invalid_api_key")
  })

  test("limited to other models, without a balance: 403", async () => {
    const { key } = await harness.key(poor.id, { models: ["another"] })
    expectError(await harness.chat(key), "model_not_allowed", { param: "model" })
    expectError(await harness.count(key), "model_not_allowed", { param: "model" })
  })

  test("limited to other models, with a model that there is not: 404", async () => {
    const { key } = await harness.key(poor.id, { models: ["another"] })
    expectError(await harness.chat(key, { model: CANARY }), "model_not_found", { param: "model" })
    expectError(await harness.count(key, { model: CANARY }), "model_not_found", { param: "model" })
  })
})

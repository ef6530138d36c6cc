import { expect, test } from "bun:test"
import { makeKey } from "../../src/admission/key.ts"
import { GatewayError } from "../../src/errors.ts"
import { RepeatedRefusals } from "../../src/routes/repeated-refusals.ts"
import type { RefusalsBody } from "../../src/wire/refusals.ts"
import { rawClient } from "../support/raw-client.ts"
import { testPair } from "../support/test-gateway.ts"

const CLIENTS = 20
const LARGE_BYTES = 2_000_000
/** A byte of a body counts as four (D77), so there is memory for one such body. */
const LITTLE = { memory: "8MiB", body: "2MiB" }

const { gateway, other } = await testPair({ changes: { limits: LITTLE }, other_changes: {} })
const { id, key, key_id } = await other.account("10")

function headOf(key: string): string {
  return [
    "POST /v1/chat/completions HTTP/1.1",
    "host: gateway.test",
    `authorization: Bearer ${key}`,
    "content-type: application/json",
    `content-length: ${LARGE_BYTES}`,
    "\r\n",
  ].join("\r\n")
}

/** The answers to heads of large bodies that are sent together, so that the gateway reads them in one turn. */
async function answersTo(key: string) {
  const clients = await Promise.all(Array.from({ length: CLIENTS }, () => rawClient(gateway)))
  for (const client of clients) client.send(headOf(key))
  const answers = await Promise.all(clients.map((client) => client.answer("POST")))
  for (const client of clients) client.reset()
  return answers
}

/** Takes the memory, so that the others are refused. */
const first = await rawClient(gateway)
first.send(headOf(key))

test.each([
  ["no memory", () => key, 503, "overloaded"],
  ["a key that nobody has", makeKey, 401, "invalid_api_key"],
  ["no key at all", () => "wrong", 401, "invalid_api_key"],
] as const)(
  "D112 calls refused together for %s have answers of their own",
  async (_, keyOf, status, code) => {
    const answers = await answersTo(keyOf())
    for (const answer of answers) {
      expect(answer.status).toBe(status)
      expect(JSON.parse(answer.body).error.code).toBe(code)
      expect(JSON.parse(answer.body).request_id).toBe(answer.headers["x-request-id"])
    }
    expect(new Set(answers.map(({ headers }) => headers["x-request-id"])).size).toBe(CLIENTS)
  },
)

test("D112 each refused call is counted for its account and in the metrics", async () => {
  const answered = (status: number, calls: number) =>
    `tollgate_requests_total{route="/v1/chat/completions",status="${status}"} ${calls}\n`
  const metrics = await gateway.metrics()
  expect(metrics.includes(answered(503, CLIENTS))).toBeTrue()
  expect(metrics.includes(answered(401, 2 * CLIENTS))).toBeTrue()
  first.reset()
  await gateway.stop()
  const { data } = await other.admin<RefusalsBody>("GET", "/refusals")
  expect(data.map(({ account, key, code, requests }) => [account, key, code, requests])).toEqual(
    expect.arrayContaining([
      [null, null, "invalid_api_key", 2 * CLIENTS],
      [id, key_id, "overloaded", CLIENTS],
    ]),
  )
})

function post(headers: Record<string, string>, method = "POST"): Request {
  return new Request("http://gateway.test/v1/messages", {
    method,
    headers: { "x-api-key": "key", "content-length": String(LARGE_BYTES), ...headers },
  })
}

const counted: number[] = []
const refused = () => new GatewayError("overloaded", { count: () => counted.push(1) })
const refuse = async () => new Response("refused")

test("D112 a call with the same head gets the same refusal until the turn ends, and is counted", async () => {
  const repeated = new RepeatedRefusals()
  expect(repeated.answer(post({}))).toBeNull()
  repeated.add(post({}), refused(), refuse)
  expect(await (await repeated.answer(post({})))?.text()).toBe("refused")
  expect(counted).toHaveLength(1)
  await new Promise(setImmediate)
  expect(repeated.answer(post({}))).toBeNull()
})

test.each([
  ["of another key", post({ "x-api-key": "other" })],
  ["with another bearer token", post({ authorization: "Bearer key" })],
  ["with a longer body", post({ "content-length": String(LARGE_BYTES + 1) })],
  ["of another media type", post({ "content-type": "text/plain" })],
  ["that is compressed", post({ "content-encoding": "gzip" })],
  ["that may have a stored answer", post({ "idempotency-key": "a" })],
  ["of a browser", post({ origin: "https://example.com" })],
  ["of another method", post({}, "PUT")],
])("D112 a call %s does not get the refusal of another", (_, request) => {
  const repeated = new RepeatedRefusals()
  repeated.add(post({}), refused(), refuse)
  expect(repeated.answer(request)).toBeNull()
})

test("D112 a call without a body does not get the refusal of one whose body has no length", () => {
  const bare = (headers: Record<string, string>) =>
    new Request("http://gateway.test/v1/messages", { method: "POST", headers })
  const repeated = new RepeatedRefusals()
  repeated.add(bare({ "transfer-encoding": "chunked" }), refused(), refuse)
  expect(repeated.answer(bare({ "transfer-encoding": "chunked" }))).not.toBeNull()
  expect(repeated.answer(bare({}))).toBeNull()
})

test.each([
  ["with an unknown model", new GatewayError("model_not_found", { count: () => {} }), {}],
  ["that is not counted", new GatewayError("overloaded"), {}],
  ["with a short body", refused(), { "content-length": "1000" }],
  ["with an idempotency key", refused(), { "idempotency-key": "a" }],
  ["of a browser", refused(), { origin: "https://example.com" }],
])("D112 the refusal of a call %s is not repeated", (_, fault, headers) => {
  const repeated = new RepeatedRefusals()
  repeated.add(post(headers), fault, refuse)
  expect(repeated.answer(post(headers))).toBeNull()
})

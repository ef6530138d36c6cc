import { describe, expect, test } from "bun:test"
import { readdirSync } from "node:fs"
import fc from "fast-check"
import { makeKey } from "../../src/admission/key.ts"
import { CANARY, chatBody, testHarness } from "../http/harness.ts"
import { ADMIN_TOKEN, CHAT, MESSAGES, PROVIDER_KEY, until, untilIs } from "../support/gateway.ts"
import { chatWords, type Exchange, HELLO, json, sse, usage } from "../support/provider.ts"
import type { RawClient } from "../support/raw-client.ts"
import { jsonDraft, requestBytes } from "../support/request.ts"
import { FUZZ_MS, fuzzing } from "./fuzz-cases.ts"
import { type HostileAnswer, hostileAnswer } from "./hostile-answers.ts"
import { bodyLike, damaged, operatorsRequest, request } from "./noise.ts"

/** Requests of one run, on connections of their own, all at once. */
const AT_ONCE = 4
const options = fuzzing(AT_ONCE)
/** A body that never comes is given up after 100 ms; what has no answer much later has no end. */
const PATIENCE_MS = 400
/** What takes longer hangs. */
const HANG_MS = 4_000

const MESSAGE = {
  type: "message",
  content: [{ type: "text", text: "hello" }],
  usage: { input_tokens: 10, output_tokens: 5 },
}

const harness = await testHarness({ limits: { body: "64KiB", body_timeout: "100ms" } })
const account = await harness.account("1000000")
const other = await harness.account("1")
harness.provider.reply(rightly)

/** Answers as a provider should. */
function rightly(exchange: Exchange): Promise<void> | void {
  const { path, json: asked } = exchange.request
  if (path.endsWith("/count_tokens")) return json(200, { input_tokens: 7 })(exchange)
  if (path.endsWith("/messages")) return json(200, MESSAGE)(exchange)
  const is_stream = typeof asked === "object" && asked !== null && "stream" in asked && asked.stream === true
  if (is_stream) return sse(chatWords("hello"), { usage: usage(10, 5) })(exchange)
  return HELLO(exchange)
}

function callOf(model: string, fields: object) {
  return jsonDraft(
    account.key,
    model === CHAT ? "/v1/chat/completions" : "/v1/messages",
    chatBody({ model, max_tokens: 100, ...fields }),
    ["anthropic-version: 2023-06-01"],
  )
}

async function sends({ pieces, is_reset }: HostileAnswer, exchange: Exchange): Promise<void> {
  for (const piece of pieces) await exchange.raw(Buffer.from(piece, "latin1"))
  if (is_reset) exchange.reset()
  else exchange.close()
}

/** What comes back for these bytes: an answer, or all that came before the connection was over. */
async function exchange(bytes: Uint8Array): Promise<string> {
  const line = harness.dial()
  line.send(bytes)
  const method = Buffer.from(bytes.subarray(0, 5)).toString() === "HEAD " ? "HEAD" : "GET"
  const answered = line.answer(method).then(
    ({ status, headers, body }) => `${status} ${JSON.stringify(headers)} ${body}`,
    () => line.over,
  )
  const said = (await within(PATIENCE_MS, answered)) ?? (await within(HANG_MS, goneAfterAll(line)))
  line.leave()
  return said ?? "nothing, for too long"
}

/** The rest of a request that has no end is awaited; once it is said that there is none, the connection is over. */
function goneAfterAll(line: RawClient): Promise<string> {
  line.halfClose()
  return line.over
}

/** What a promise resolves with, or null when that takes longer. */
async function within<T>(wait_ms: number, promise: Promise<T>): Promise<T | null> {
  const { promise: over, resolve } = Promise.withResolvers<null>()
  const timer = setTimeout(() => resolve(null), wait_ms)
  const first = await Promise.race([promise, over])
  clearTimeout(timer)
  return first
}

/** How often each status came, so that a test can say that it tried what it meant to. */
const statuses = new Map<string, number>()

/** How every error of the gateway begins; that of a provider is shown with its status, and has at least an `error` (D64). */
const OWN_ERROR = '{"type":"error","error":{"type":"'
const ANY_ERROR = '"error":'

/** What must hold of any answer to anything. */
function expectSane(said: string, error: string): void {
  const status = /^(?:HTTP\/1\.1 )?(\d{3}) /.exec(said)?.[1] ?? said
  statuses.set(status, (statuses.get(status) ?? 0) + 1)
  expect(said).not.toMatch(
    error === OWN_ERROR ? /^(?:HTTP\/1\.1 )?500|^nothing/ : /"internal_error"|^nothing/,
  )
  const secrets = [CANARY, PROVIDER_KEY, ADMIN_TOKEN, account.key, other.key]
  expect(secrets.filter((secret) => said.includes(secret))).toEqual([])
  if (/^[45]\d\d \{"content-type"/.test(said) && !said.endsWith("} ")) {
    expect(said).toContain('"x-request-id":"')
    expect(said).toContain(error)
  }
}

/** Sends all of a run at once; afterwards the gateway still lives. */
async function sendAll(requests: readonly Uint8Array[], error = OWN_ERROR): Promise<void> {
  for (const said of await Promise.all(requests.map(exchange))) expectSane(said, error)
  expect((await harness.ask({ target: "/livez" })).status).toBe(200)
}

/** How many calls of an account the ledger knows. */
async function callsOf(account_id: string): Promise<number> {
  const [row] = await harness.gateway
    .sql`SELECT count(*)::int FROM tollgate.holds WHERE account_id = ${account_id}`
  return row?.count
}

const open_files = () => readdirSync("/proc/self/fd").length

/** Does `work`, and looks for what that leaves: holds, answers on their way, sockets, a ledger that is not exact, faults in the log. */
async function leavesNothing(work: () => Promise<void>): Promise<void> {
  const files = open_files()
  await work()
  const { violations } = await untilIs(harness.gateway.audit, { open_holds: 0 })
  expect(violations).toEqual([])
  expect((await harness.gateway.balance(account.id)).held).toBe("0")
  await untilIs(() => harness.gateway.service.server.pending, 0)
  await until(open_files, (now) => now <= files + 4 * AT_ONCE)
  expect(harness.gateway.lines.filter((line) => /"level":(?:50|60)/.test(line))).toEqual([])
}

function several<T>(one: fc.Arbitrary<T>): fc.Arbitrary<T[]> {
  return fc.array(one, { minLength: AT_ONCE, maxLength: AT_ONCE })
}

const credentials = () => [
  ...Array.from({ length: 6 }, () => [
    `authorization: Bearer ${account.key}`,
    `x-api-key: ${account.key}`,
  ]).flat(),
  `authorization: Bearer ${makeKey()}`,
  `authorization: Bearer ${ADMIN_TOKEN}`,
]

describe("anything at all is answered: no 500, no crash, no hang, no leak, and the ledger is exact", () => {
  test(
    "D15 requests to every address",
    async () => {
      statuses.clear()
      await leavesNothing(() =>
        fc.assert(
          fc.asyncProperty(several(request(credentials(), chatBody())), (drafts) =>
            sendAll(drafts.map(requestBytes)),
          ),
          options,
        ),
      )
      for (const status of ["200", "400", "401", "404", "405", "415"])
        expect([...statuses.keys()]).toContain(status)
    },
    FUZZ_MS,
  )

  test(
    "bytes that were damaged on the way",
    async () => {
      statuses.clear()
      await leavesNothing(() =>
        fc.assert(
          fc.asyncProperty(several(damaged(request(credentials(), chatBody()).map(requestBytes))), (all) =>
            sendAll(all),
          ),
          options,
        ),
      )
      for (const status of ["200", "400", "401", "404"]) expect([...statuses.keys()]).toContain(status)
    },
    FUZZ_MS,
  )

  test(
    "D18 spoiled bodies: each 200 is one call of the provider and one in the ledger, nothing else is any",
    async () => {
      const before = await callsOf(account.id)
      let taken = 0
      await leavesNothing(() =>
        fc.assert(
          fc.asyncProperty(several(bodyLike(chatBody())), async (bodies) => {
            const headers = [`authorization: Bearer ${account.key}`, "content-type: application/json"]
            const asked = harness.provider.requests.length
            const target = "/v1/chat/completions"
            const answers = await Promise.all(
              bodies.map((body) => harness.ask({ method: "POST", target, headers, body })),
            )
            const whole = answers.filter(({ status }) => status === 200).length
            expect(answers.filter(({ status }) => ![200, 400, 403, 404].includes(status))).toEqual([])
            expect(harness.provider.requests.length - asked).toBe(whole)
            taken += whole
          }),
          options,
        ),
      )
      expect(taken).toBeGreaterThan(options.numRuns / 10)
      expect(await callsOf(account.id)).toBe(before + taken)
    },
    FUZZ_MS,
  )

  test(
    "answers of a provider that are broken anywhere, in pieces that end anywhere",
    async () => {
      statuses.clear()
      const asking = fc.tuple(fc.constantFrom(CHAT, CHAT, MESSAGES), fc.boolean(), hostileAnswer)
      await leavesNothing(() =>
        fc.assert(
          fc.asyncProperty(fc.array(asking, { minLength: 2, maxLength: 2 }), async (asked) => {
            const answers = asked.map(([, , answer]) => answer)
            harness.provider.reply((exchange) => {
              const answer = answers.shift()
              return answer === undefined ? rightly(exchange) : sends(answer, exchange)
            })
            await sendAll(
              asked.map(([model, stream]) => requestBytes(callOf(model, { stream }))),
              ANY_ERROR,
            )
            // A right answer keeps the circuit breakers closed; one that opened lets a call pass after ten seconds.
            harness.provider.reply(rightly)
            for (const model of [CHAT, MESSAGES]) {
              const answers = await until(
                () => harness.ask(callOf(model, {})),
                ({ status, body }) => status !== 503 || !body.includes('"upstream_unavailable"'),
              )
              expect(answers.status).toBe(200)
            }
          }),
          fuzzing(2),
        ),
      )
      for (const status of ["200", "400", "404", "429", "502", "503"])
        expect([...statuses.keys()]).toContain(status)
    },
    FUZZ_MS,
  )

  test(
    "what operators may send",
    async () => {
      const ids = [other.id, account.id, "01a1fdba-bbb4-7000-889f-26dc4478d767"]
      const headers = [`authorization: Bearer ${ADMIN_TOKEN}`, "content-type: application/json"]
      await leavesNothing(() =>
        fc.assert(
          fc.asyncProperty(several(operatorsRequest(ids)), async (drafts) => {
            const answers = await Promise.all(drafts.map((draft) => harness.ask({ ...draft, headers })))
            expect(answers.filter(({ status }) => ![200, 201, 204, 400, 404, 405].includes(status))).toEqual(
              [],
            )
          }),
          options,
        ),
      )
      expect((await harness.chat(account.key, { model: CHAT })).status).toBe(200)
    },
    FUZZ_MS,
  )
})

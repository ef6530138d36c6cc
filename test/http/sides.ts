import { expect, test } from "bun:test"
import { printUsd } from "../../src/money.ts"
import { SETTLE_WAIT_MS } from "../../src/settlement/settle.ts"
import type { Answer } from "../support/answer.ts"
import { type CallRecord, PROVIDER_KEY, until } from "../support/gateway.ts"
import { nanoOf } from "../support/price.ts"
import { json, type RecordedRequest, type Script, sse, sseEvent } from "../support/provider.ts"
import { chatBody } from "../support/request.ts"
import { ofFile } from "../support/test-gateway.ts"
import { type Client, type Sending, send } from "./client.ts"
import { type Code, expectError, ownHeaders } from "./errors.ts"
import { CANARY, type Harness, openHarness } from "./harness.ts"

/** Keeps the gateway's own comments out of streams whose bytes are compared. */
export const NO_COMMENTS = { stream: { keepalive: "60s", commit_after: "60s", stall: "30s" } }

/** What `chatBody()` holds: its prompt's 35 bytes at 1,000 nano-USD, 1,000 output tokens at 4,000. */
export const RESERVED = "0.004035"

/** 44 bytes: 11 tokens when they must be estimated (rules 2, 4, 5). */
export const SENTENCE = "The quick brown fox jumps over the lazy dog."
export const STREAM = chatBody({ stream: true })
/** Charged for valid usage of 10 prompt and 5 completion tokens. */
export const CHARGED = settled("0.00003", [10, 0, 5])
export const BROKEN = errorEvent(
  "upstream_error",
  "api_error",
  "The provider failed to complete the request. Retry the request.",
)

/** One call to make: what the client says, what the provider answers, and what the account has. */
export interface Trial {
  /** Without one no request may reach the provider. */
  readonly script?: Script
  readonly body?: object
  readonly usd?: string
  readonly sending?: Sending
}

/** What the three sides of one call know of it. */
export interface Sides {
  readonly answer: Answer
  readonly id: string
  readonly requests: readonly RecordedRequest[]
  readonly call: CallRecord
  /** Of the account before the call, and now. */
  readonly credit: string
  readonly balance: string
  readonly held: string
}

/** A call under way. */
export interface Running {
  readonly client: Client
  readonly account_id: string
  /**
   * Everything as it stands when the answer has ended: nothing is waited for after the client's last byte, unless it came
   * so late that it may have left before the settlement (D32).
   */
  sides(): Promise<Sides>
  /** The same when the client left: as soon as the ledger says that the call is over. */
  sidesOnceClosed(): Promise<Sides>
}

/** A harness whose provider answers what a trial says, and nothing else. */
export interface Stage extends Harness {
  begin(trial: Trial): Promise<Running>
  run(trial: Trial): Promise<Sides>
}

export async function openStage(...changes: Parameters<typeof openHarness>): Promise<Stage> {
  const harness = await openHarness(...changes)
  const { gateway, provider } = harness
  provider.reply(() => {
    throw new Error("a request met no script")
  })

  async function begin({ script, body = chatBody(), usd = "1", sending }: Trial): Promise<Running> {
    const { id: account_id, key } = await harness.account(usd)
    const before = provider.requests.length
    if (script !== undefined) provider.replyOnce(script)
    const client = send(gateway.url, key, body, sending)
    const sidesOf = async (answer: Answer): Promise<Sides> => {
      const id = answer.headers["x-request-id"] ?? ""
      const call = await gateway.call(id)
      const { balance, held } = await gateway.balance(account_id)
      return { answer, id, requests: provider.requests.slice(before), call, credit: usd, balance, held }
    }
    return {
      client,
      account_id,
      async sides() {
        const answer = await client.ended
        // Past its 250 ms the last byte leaves before the settlement is durable (D32).
        if (performance.now() - client.sent_ms >= SETTLE_WAIT_MS) {
          await until(
            () => gateway.calls(`?account=${account_id}`),
            (found) => found.every(({ state }) => state !== "open"),
          )
        }
        return await sidesOf(answer)
      },
      async sidesOnceClosed() {
        await gateway.endedCalls(account_id)
        return await sidesOf(await client.head)
      },
    }
  }

  return { ...harness, begin, run: async (trial) => (await begin(trial)).sides() }
}

/** The stage of a test file, closed after its last test. */
export const testStage = (...options: Parameters<typeof openStage>) => ofFile(openStage(...options))

export interface LedgerCall {
  readonly state: string
  readonly basis: string
  readonly ending: string | null
  readonly failure: string | null
  readonly notes: readonly string[]
  readonly held: string
  readonly charge: string
  readonly overage: string
  readonly usage: Tokens | null
}

interface Tokens {
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly completion_tokens: number
}

/** Settled with `charge` USD for [prompt, cached, completion] tokens; from valid usage unless `rest` says otherwise. */
export function settled(
  charge: string,
  [prompt_tokens, cached_tokens, completion_tokens]: readonly [number, number, number],
  rest: Partial<LedgerCall> = {},
): LedgerCall {
  return {
    state: "settled",
    basis: "usage",
    ending: "completed",
    failure: null,
    notes: [],
    held: RESERVED,
    charge,
    overage: "0",
    usage: { prompt_tokens, cached_tokens, completion_tokens },
    ...rest,
  }
}

/** Settled for `completion` estimated tokens at 4,000 nano-USD, because of `failure`. */
export function estimated(completion: number, failure: string, rest: Partial<LedgerCall> = {}): LedgerCall {
  return settled(printUsd(BigInt(completion) * 4_000n), [0, 0, completion], {
    basis: "estimate",
    failure,
    ...rest,
  })
}

export function released(failure: string, rest: Partial<LedgerCall> = {}): LedgerCall {
  return {
    state: "released",
    basis: "none",
    ending: "completed",
    failure,
    notes: [],
    held: RESERVED,
    charge: "0",
    overage: "0",
    usage: null,
    ...rest,
  }
}

/** The ledger says exactly this: the call, nothing held any more, and the balance moved by the charge and nothing else. */
export function expectLedger({ call, credit, balance, held }: Sides, recorded: LedgerCall): void {
  const shown: Record<string, unknown> = {}
  for (const word of Object.keys(recorded)) shown[word] = call[word]
  expect(shown).toEqual({ ...recorded })
  expect({ balance, held }).toEqual({
    balance: printUsd(nanoOf(credit) - nanoOf(recorded.charge)),
    held: "0",
  })
}

/** The provider saw one request: what the client asked for under the provider's own name of the model, and nothing else. */
export function expectSent({ requests, id }: Sides, body: object): void {
  const stream = "stream" in body && body.stream === true
  expect(requests.map(({ method, path }) => `${method} ${path}`)).toEqual(["POST /v1/chat/completions"])
  const { host, connection, "content-length": length, ...built } = requests[0]?.headers ?? {}
  expect(built).toEqual({
    accept: stream ? "text/event-stream, application/json" : "application/json",
    "accept-encoding": "identity",
    authorization: `Bearer ${PROVIDER_KEY}`,
    "content-type": "application/json",
    "user-agent": "tollgate",
    "x-request-id": id,
  })
  expect(requests[0]?.body).toBe(JSON.stringify(sentFor(body)))
}

/** What the provider is sent for a client's body: the model renamed in place, a stream's usage asked for. */
function sentFor(body: object): object {
  const renamed = { ...body, model: "upstream-model" }
  if (!("stream" in body) || body.stream !== true) return renamed
  const options = "stream_options" in body ? body.stream_options : {}
  const given = typeof options === "object" ? options : {}
  return { ...renamed, stream_options: { ...given, include_usage: true } }
}

/** What a client must have seen. */
export type Sees = (sides: Pick<Sides, "answer" | "id">) => void

/** A JSON answer whose body is, byte for byte, `body` (D24). */
export function seesJson(body: string | Uint8Array): Sees {
  return ({ answer, id }) => {
    expect(answer.status).toBe(200)
    expect(ownHeaders(answer)).toEqual({ "content-type": "application/json", ...ids(id) })
    expectBytes(answer, body)
  }
}

/** A stream of exactly `body`, which the framing ends as it should (D24). */
export function seesStream(body: string | Uint8Array): Sees {
  return ({ answer, id }) => {
    expect(answer.status).toBe(200)
    expect(ownHeaders(answer)).toEqual({
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
      ...ids(id),
    })
    expectBytes(answer, body)
  }
}

/** The same of these events. */
export const seesEvents = (...events: readonly unknown[]) => seesStream(streamText(...events))

/** A stream that ends with a reset, or a close without its last chunk, after these events. */
export const reset = (...events: readonly unknown[]) => sse(events, { done: false, ending: "reset" })
export const closed = (...events: readonly unknown[]) => sse(events, { done: false, ending: "close" })

/** The text of a stream: an object is one `data:` event, a string stands as it is. */
export function streamText(...events: readonly unknown[]): string {
  return events.map((event) => (typeof event === "string" ? event : sseEvent(event))).join("")
}

/** An error (D16), and nothing of what the provider said. */
export function seesError(code: Code): Sees {
  return ({ answer }) => {
    expectError(answer, code)
    expect(answer.body).not.toContain(CANARY)
    expect(answer.whole).toBe(true)
  }
}

/** An error as the last event of a stream (D10): in our shape, and no `[DONE]`. */
export function errorEvent(code: string, type: string, message: string): string {
  return sseEvent({ error: { type, message, param: null, code } })
}

/** Runs one call and holds its three sides to what they must know of it. */
export async function expectSides(stage: Stage, trial: Trial, sees: Sees, recorded: LedgerCall) {
  const sides = await stage.run(trial)
  sees(sides)
  expectSent(sides, trial.body ?? chatBody())
  expectLedger(sides, recorded)
}

/** What the provider answers to a call, what its client sees, and what the ledger has. */
export type Row = readonly [name: string, script: Script, sees: Sees, recorded: LedgerCall]

/** A test for each row. */
export function holdsFor(stage: Stage, rows: readonly Row[], body: object = chatBody()): void {
  test.each(rows)("%s", (_, script, sees, recorded) => expectSides(stage, { script, body }, sees, recorded))
}

/** A row whose JSON answer the client gets as it is. */
export function passed(
  name: string,
  body: unknown,
  recorded: LedgerCall,
  headers: Record<string, string> = {},
): Row {
  const text = typeof body === "string" ? body : JSON.stringify(body)
  return [name, json(200, text, headers), seesJson(text), recorded]
}

/** The gateway closed the connection of the last answer. */
export async function expectCut({ provider }: Stage): Promise<void> {
  const exchange = provider.exchanges.at(-1)
  await exchange?.closed
  expect(exchange?.closed_by).toBe("gateway")
}

function expectBytes({ body, bytes, whole }: Answer, expected: string | Uint8Array): void {
  const wanted = Buffer.from(expected)
  expect(body).toBe(wanted.toString())
  expect(bytes.equals(wanted)).toBe(true)
  expect(whole).toBe(true)
}

function ids(id: string): Record<string, string> {
  return { "x-request-id": id, "request-id": id }
}

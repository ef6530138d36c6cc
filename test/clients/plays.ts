import { expect } from "bun:test"
import { within } from "../support/fair-clock.ts"
import { untilIs } from "../support/gateway.ts"
import {
  chatChunk,
  chatCompletion,
  chatWords,
  json,
  silent,
  sse,
  sseEvent,
  usage,
} from "../support/provider.ts"
import { failureOf, nameOf, PROMPT, type Session } from "./client.ts"
import type { Cell } from "./stage.ts"
import { IN_JSON, IN_STREAMS, LAST_WORDS, NAME, RESULT } from "./weather.ts"

/** One thing that a client does through the gateway, seen by the client, by the provider and by the ledger. */
export interface Play {
  readonly name: string
  /** What the client must have a word for. */
  readonly needs: keyof Session
  /** What is told of it on the page. */
  run(session: Session, cell: Cell): Promise<string>
}

/** 6 tokens at 1,000 nano-USD, 4 cached ones at 100, 5 of output at 4,000. */
export const CHARGE = "0.0000264"
const USAGE = usage(10, 5, 4)
export const TOKENS = { prompt: 10, cached: 4, completion: 5 }
/** The gateway cuts a provider within so much of the time it is given (D9). */
const CUT_MS = 2_000

const DONE = "yes"

export const PLAYS: readonly Play[] = [
  {
    name: "chat (rule 1)",
    needs: "chat",
    async run(session, cell) {
      cell.answers(json(200, chatCompletion("hello there", { usage: USAGE })))
      const { text, tokens, request_id } = await session.chat()
      expect({ text, tokens }).toEqual({ text: "hello there", tokens: TOKENS })
      expect(askedOf(cell)).toMatchObject([
        { model: "provider-model", messages: [{ role: "user", content: PROMPT }] },
      ])
      const calls = await cell.calls()
      expect(calls).toMatchObject([{ state: "settled", basis: "usage", charge: CHARGE, stream: false }])
      if (request_id !== null) expect(calls[0]?.id).toBe(request_id)
      return DONE
    },
  },
  {
    name: "stream (rule 1)",
    needs: "stream",
    async run(session, cell) {
      cell.answers(sse(chatWords("one", " two"), { usage: USAGE }))
      const { text, tokens, request_id, complaint } = await session.stream()
      expect({ text, tokens, complaint }).toEqual({ text: "one two", tokens: null, complaint: undefined })
      expect(askedOf(cell)).toMatchObject([{ stream: true, stream_options: { include_usage: true } }])
      const calls = await cell.calls()
      expect(calls).toMatchObject([{ state: "settled", basis: "usage", charge: CHARGE, stream: true }])
      if (request_id !== null) expect(calls[0]?.id).toBe(request_id)
      return DONE
    },
  },
  {
    name: "usage at a stream's end, asked for",
    needs: "stream",
    async run(session, cell) {
      cell.answers(sse(chatWords("one", " two"), { usage: USAGE }))
      const { text, tokens } = await session.stream({ usage: true })
      expect({ text, tokens }).toEqual({ text: "one two", tokens: TOKENS })
      expect(await cell.calls()).toMatchObject([{ basis: "usage", charge: CHARGE }])
      return DONE
    },
  },
  toolPlay("tools: called, run, answered", false),
  toolPlay("tools, streamed", true),
  {
    name: "`usage.cost`, asked for (D49)",
    needs: "chat",
    async run(session, cell) {
      cell.answers(
        json(200, chatCompletion("hello there", { usage: USAGE })),
        sse(chatWords("one"), { usage: USAGE }),
      )
      expect((await session.chat({ cost: true })).cost).toBe(Number(CHARGE))
      expect((await session.stream({ usage: true, cost: true })).cost).toBe(Number(CHARGE))
      for (const asked of askedOf(cell)) expect(asked).not.toHaveProperty("usage")
      expect(await cell.calls()).toMatchObject([{ charge: CHARGE }, { charge: CHARGE }])
      return DONE
    },
  },
  {
    name: "a 502, repeated under an `Idempotency-Key` (D43)",
    needs: "chat",
    async run(session, cell) {
      cell.answers(json(500, {}), json(200, chatCompletion("hello there", { usage: USAGE })))
      const headers = { "idempotency-key": `${cell.account_id}-1` }
      expect((await session.chat({ headers })).text).toBe("hello there")
      expect([cell.exchanges.length, cell.door.requests_ms.length]).toEqual([2, 2])
      expect(await cell.calls()).toMatchObject([
        { state: "released", charge: "0", failure: "upstream_error" },
        { state: "settled", charge: CHARGE },
      ])
      return "charged once"
    },
  },
  {
    name: "a malformed answer, repeated under an `Idempotency-Key` (D43)",
    needs: "chat",
    async run(session, cell) {
      cell.answers(json(200, "{"))
      const headers = { "idempotency-key": `${cell.account_id}-2` }
      const error = await failureOf(session.chat({ headers }))
      const [call, ...more] = await cell.calls()
      expect(call).toMatchObject({ state: "released", charge: "0", failure: "usage_invalid" })
      expect([more, cell.exchanges.length]).toEqual([[], 1])
      if (cell.door.requests_ms.length === 1) return "not repeated"
      expect(cell.door.requests_ms).toHaveLength(2)
      expect(`${JSON.stringify(error)} ${error}`).toContain(`The earlier call is ${call?.id}:`)
      return "made once"
    },
  },
  {
    name: "models (D23)",
    needs: "models",
    async run(session, cell) {
      const models = await session.models()
      const family = models.includes(cell.model) ? "chat" : "messages"
      expect(models).toEqual([family === "chat" ? cell.model : cell.counter])
      expect(cell.exchanges).toEqual([])
      return DONE
    },
  },
  {
    name: "token counts (D22)",
    needs: "count",
    async run(session, cell) {
      cell.answers(json(200, { input_tokens: 12 }))
      expect(await session.count()).toBe(12)
      expect(askedOf(cell)).toEqual([
        { model: "provider-model", messages: [{ role: "user", content: PROMPT }] },
      ])
      expect(await cell.calls()).toEqual([])
      expect(await cell.gateway.balance(cell.account_id)).toMatchObject({ balance: "1", held: "0" })
      return DONE
    },
  },
  {
    name: "a stream without output (rule 6)",
    needs: "stream",
    async run(session, cell) {
      cell.answers(sse([chatChunk({ role: "assistant", content: "" })]))
      const { text, complaint } = await session.stream()
      expect(text).toBe("")
      expect(cell.door.requests_ms).toHaveLength(1)
      expect(await cell.calls()).toMatchObject([{ state: "released", charge: "0", failure: "no_output" }])
      return complaint === undefined
        ? "ends empty"
        : `ends empty; \`onError\` is told \`${nameOf(complaint)}\``
    },
  },
  {
    name: "a stream that breaks after output (D10)",
    needs: "stream",
    async run(session, cell) {
      const heard = Promise.withResolvers<void>()
      cell.answers(async (exchange) => {
        await exchange.head(200, { "content-type": "text/event-stream" })
        await exchange.chunk(sseEvent(chatChunk({ content: "one" })))
        await heard.promise
        exchange.reset()
      })
      const outcome = await session.stream({ onText: () => heard.resolve() }).then(
        ({ complaint }) => ({ told: complaint, how: "told, not thrown" }),
        (error: unknown) => ({ told: error, how: "throws" }),
      )
      expect(outcome.told).toBeDefined()
      expect(`${outcome.told} ${JSON.stringify(outcome.told)}`).toContain("The provider failed to complete")
      expect(cell.door.requests_ms).toHaveLength(1)
      expect(await cell.calls()).toMatchObject([
        { state: "settled", basis: "estimate", ending: "upstream_lost", charge: "0.000004" },
      ])
      return outcome.how
    },
  },
  {
    name: "leaving a stream (D9)",
    needs: "stream",
    async run(session, cell) {
      cell.answers(async (exchange) => {
        await exchange.head(200, { "content-type": "text/event-stream" })
        await exchange.chunk(sseEvent(chatChunk({ content: "one" })))
      })
      const leaving = new AbortController()
      const left = Promise.withResolvers<void>()
      const onText = () => {
        leaving.abort()
        left.resolve()
      }
      const failed = failureOf(session.stream({ signal: leaving.signal, onText }))
      const exchange = await cell.exchange(1)
      await left.promise
      expect(await within(CUT_MS, exchange.closed)).toBeTrue()
      expect(exchange.closed_by).toBe("gateway")
      const error = await failed
      expect(cell.door.requests_ms).toHaveLength(1)
      expect(await cell.calls()).toMatchObject([
        { state: "settled", basis: "estimate", ending: "client_left", charge: "0.000016" },
      ])
      return error === null ? "ends" : `throws \`${nameOf(error)}\``
    },
  },
  {
    name: "leaving a JSON call (D9)",
    needs: "chat",
    async run(session, cell) {
      cell.answers(silent())
      const leaving = new AbortController()
      const failed = failureOf(session.chat({ signal: leaving.signal }))
      const exchange = await cell.exchange(1)
      leaving.abort()
      const error = await failed
      await untilIs(() => cell.door.connections, 0)
      await hears(cell)
      await json(200, chatCompletion("unheard", { usage: USAGE }))(exchange)
      expect(await cell.calls()).toMatchObject([
        { state: "settled", basis: "usage", ending: "client_left", charge: CHARGE },
      ])
      expect(cell.door.requests_ms).toHaveLength(1)
      return `throws \`${nameOf(error)}\``
    },
  },
]

/** Asks, runs the tool, sends the result, hears the last words: two calls, each charged by its usage. */
function toolPlay(name: string, streamed: boolean): Play {
  return {
    name,
    needs: "useTool",
    async run(session, cell) {
      cell.answers(...(streamed ? IN_STREAMS : IN_JSON))
      expect(await session.useTool(streamed)).toBe(LAST_WORDS)
      const [question, result] = askedOf(cell)
      expect(question).toMatchObject({ tools: [{ type: "function", function: { name: NAME } }] })
      expect(result).toMatchObject({
        messages: [
          { role: "user" },
          { role: "assistant", tool_calls: [{ id: "call_1", function: { name: NAME } }] },
          { role: "tool", tool_call_id: "call_1", content: expect.stringContaining(RESULT) },
        ],
      })
      expect(await cell.calls()).toMatchObject([
        { basis: "usage", charge: "0.00003", stream: streamed },
        { basis: "usage", charge: "0.00004", stream: streamed },
      ])
      return DONE
    },
  }
}

/** Resolves when the gateway has had its turn for whatever reached its sockets before. */
async function hears({ gateway }: Cell): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await fetch(`${gateway.url}/livez`)
}

function askedOf(cell: Cell): readonly unknown[] {
  return cell.exchanges.map(({ request }) => request.json)
}

import { describe, expect, spyOn, test } from "bun:test"
import { Spool } from "../../src/ledger/queue/spool.ts"
import { chatChunk, chatWords, json, type Script, sse, usage, usageChunk } from "../support/provider.ts"
import { chatBody } from "../support/request.ts"
import type { Client } from "./client.ts"
import {
  CHARGED,
  expectLedger,
  expectSides,
  holdsFor,
  type LedgerCall,
  NO_COMMENTS,
  type Row,
  released,
  type Sees,
  STREAM,
  seesEvents,
  seesStream,
  streamText,
  testStage,
} from "./sides.ts"

/** The rulings on streams as both sides see them: what is usage, what is output, and which bytes pass. */

/** Its usage is shown, wherever it stands. */
const WITH_USAGE = chatBody({ stream: true, stream_options: { include_usage: true } })
const DONE = "data: [DONE]\n\n"

const stage = await testStage(() => NO_COMMENTS)

const holds = (rows: readonly Row[], body: object = STREAM) => holdsFor(stage, rows, body)

/** An answer in pieces, each of which the gateway has time to read on its own. */
function pieces(...parts: readonly (string | Uint8Array)[]): Script {
  return async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream" })
    for (const part of parts) {
      await exchange.chunk(part)
      await Bun.sleep(2)
    }
    await exchange.end()
  }
}

/** An event stream that comes in one packet with its headers. */
function atOnce(...events: readonly unknown[]): Script {
  return async (exchange) => {
    await exchange.whole(200, { "content-type": "text/event-stream" }, streamText(...events))
    await exchange.end()
  }
}

describe("D24 usage is always asked for, and its chunk shown to who asked", () => {
  const events = [...chatWords("hi").map((event) => ({ ...event, usage: null })), usageChunk(usage(10, 5))]
  const all = seesEvents(...events, DONE)
  const stripped = seesEvents(...events.slice(0, -1), DONE)
  const options: [object | null | undefined, Sees][] = [
    [undefined, stripped],
    [null, stripped],
    [{}, stripped],
    [{ include_usage: false }, stripped],
    [{ include_usage: null }, stripped],
    [{ include_obfuscation: false, other: { deep: [1] } }, stripped],
    [{ include_usage: true }, all],
    [{ other: 1, include_usage: true, include_obfuscation: true }, all],
  ]
  test.each(options)("stream_options %j", async (stream_options, sees) => {
    const body = chatBody({ stream: true, ...(stream_options !== undefined && { stream_options }) })
    await expectSides(stage, { script: sse(events), body }, sees, CHARGED)
  })
})

describe("D24, D36 the provider's bytes pass unchanged", () => {
  const said = JSON.stringify({ ...chatChunk({ content: "é😀\u2028" }, "stop"), usage: usage(10, 5) })
  const exact = (name: string, text: string): Row => [
    name,
    pieces(text, DONE),
    seesStream(text + DONE),
    CHARGED,
  ]
  const rows: Row[] = [
    exact(
      "event, id and retry lines, comments",
      `: hi\n\nevent: chunk\nid: 7\nretry: 5\n: in it\ndata: ${said}\n\n`,
    ),
    exact("spaces, escapes, duplicate keys", `data:  {"usage":{} , "x":"\\u00e9",${said.slice(1)}\n\n`),
    exact("an event that is no JSON", `data: ${said}\n\ndata: {oops\n\nnonsense\n\n`),
    [
      "[DONE] in another spelling",
      pieces(`data: ${said}\n\n`, "data:[DONE]\r\n\r\n"),
      seesStream(`data: ${said}\n\n${DONE}`),
      CHARGED,
    ],
  ]
  holds(rows, WITH_USAGE)
})

describe("D29 an event stream is read as one whatever its content type", () => {
  const events = [{ ...chatChunk({ content: "hi" }, "stop"), usage: usage(10, 5) }]
  const typed = (type: string) => sse(events, { headers: { "content-type": type } })
  const shown = seesEvents(chatChunk({ content: "hi" }, "stop"), DONE)
  const untyped: Script = async (exchange) => {
    await exchange.head(200)
    await exchange.chunk(streamText(...events, DONE))
    await exchange.end()
  }
  const page = "<html>\n\n<body>sorry</body>\n\n</html>"
  holds([
    ["text/plain", typed("text/plain"), shown, CHARGED],
    ["application/json", typed("application/json"), shown, CHARGED],
    ["none", untyped, shown, CHARGED],
    [
      "rule 6: HTML without events",
      json(200, page, { "content-type": "text/html" }),
      seesStream(""),
      released("no_output", { ending: "upstream_lost" }),
    ],
  ])
})

describe("D32 the last byte leaves when the settlement is durable", () => {
  const words = chatWords("hi")
  const said = [...words, usageChunk(usage(10, 5))]

  /** Makes a call whose settlement waits for a lock, from before its answer until `seen` has looked at the answer and its time. */
  async function whileLocked(
    body: object,
    script: Script,
    seen: (client: Client, locked_ms: number) => Promise<void>,
    recorded: LedgerCall,
  ): Promise<void> {
    const asked = Promise.withResolvers<void>()
    const locked = Promise.withResolvers<void>()
    const running = await stage.begin({
      body,
      script: async (exchange) => {
        asked.resolve()
        await locked.promise
        await script(exchange)
      },
    })
    await asked.promise
    await stage.gateway.sql.begin(async (transaction) => {
      await transaction`select from tollgate.accounts where id = ${running.account_id} for update`
      const locked_ms = performance.now()
      locked.resolve()
      await seen(running.client, locked_ms)
      expect(await stage.gateway.calls(`?account=${running.account_id}`)).toMatchObject([{ state: "open" }])
    })
    expectLedger(await running.sidesOnceClosed(), recorded)
  }

  const answers: readonly [name: string, script: Script, status: number, recorded: LedgerCall][] = [
    ["a JSON answer", json(200, { usage: usage(10, 5) }), 200, CHARGED],
    ["rule 3", json(200, ""), 502, released("usage_missing")],
    ["a call that no provider took", json(500, ""), 502, released("upstream_error", { ending: null })],
  ]
  test.each(answers)("at the latest after 250 ms: %s", async (_, script, status, recorded) => {
    const seen = async ({ ended }: Client, locked_ms: number) => {
      expect((await ended).status).toBe(status)
      expect(performance.now() - locked_ms).toBeGreaterThanOrEqual(249)
    }
    await whileLocked(chatBody(), script, seen, recorded)
  })

  test("after 250 ms only for the disk", async () => {
    const on_disk = Promise.withResolvers<void>()
    const asked = Promise.withResolvers<void>()
    const synced = spyOn(Spool.prototype, "synced").mockImplementation(() => {
      asked.resolve()
      return on_disk.promise
    })
    const seen = async ({ ended }: Client) => {
      const order: string[] = []
      const answered = ended.then(() => order.push("answered"))
      await asked.promise
      await stage.gateway.calls("?limit=1")
      order.push("on disk")
      on_disk.resolve()
      await answered
      expect(order).toEqual(["on disk", "answered"])
    }
    const whole = whileLocked(chatBody(), json(200, { usage: usage(10, 5) }), seen, CHARGED)
    await whole.finally(() => synced.mockRestore())
  })

  /** Calls that are in flight until it is called. */
  async function others(count: number): Promise<() => Promise<void>> {
    const over = Promise.withResolvers<void>()
    const asked = Array.from({ length: count }, () => Promise.withResolvers<void>())
    const running = await Promise.all(
      asked.map(({ resolve }) =>
        stage.begin({
          script: async (exchange) => {
            resolve()
            await over.promise
            await json(200, { usage: usage(10, 5) })(exchange)
          },
        }),
      ),
    )
    await Promise.all(asked.map(({ promise }) => promise))
    return async () => {
      over.resolve()
      for (const { client } of running) expect((await client.ended).status).toBe(200)
    }
  }

  test.each([
    ["beside 14 other calls its other bytes pass at once", 14, false],
    ["beside 15 other calls in one piece", 15, true],
  ])("at the latest after 250 ms: a stream that comes in one packet, %s", async (_, count, in_one_piece) => {
    const end = await others(count)
    const seen = async (client: Client, locked_ms: number) => {
      const { headers, body } = await client.head
      if (in_one_piece) expect(performance.now() - locked_ms).toBeGreaterThanOrEqual(249)
      expect("content-length" in headers).toBe(in_one_piece)
      expect(body).toBe(in_one_piece ? streamText(...words, DONE) : streamText(...words))
      expect((await client.ended).body).toBe(streamText(...words, DONE))
      expect(performance.now() - locked_ms).toBeGreaterThanOrEqual(249)
    }
    await whileLocked(STREAM, atOnce(...said, DONE), seen, CHARGED)
    await end()
  })

  test("at the latest after 250 ms: a stream that comes bit by bit, whose other bytes pass at once", async () => {
    const shown = Promise.withResolvers<void>()
    const script: Script = async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(streamText(...said))
      await shown.promise
      await exchange.chunk(streamText(DONE))
      await exchange.end()
    }
    const seen = async (client: Client) => {
      const { body } = await client.received('"finish_reason":"stop"')
      expect(body).toBe(streamText(...words))
      const shown_ms = performance.now()
      shown.resolve()
      expect((await client.ended).body).toBe(streamText(...words, DONE))
      expect(performance.now() - shown_ms).toBeGreaterThanOrEqual(249)
    }
    await whileLocked(STREAM, script, seen, CHARGED)
  })
})

import { describe, expect, spyOn, test } from "bun:test"
import { randomBytes } from "node:crypto"
import { brotliCompressSync, constants, createGzip, deflateSync, gzipSync, zstdCompressSync } from "node:zlib"
import type { Upstream } from "../../src/config/config.ts"
import type { Outgoing } from "../../src/upstream/forward.ts"
import { sessionOf } from "../../src/upstream/http/fetch.ts"
import { drainBody } from "../../src/upstream/reply.ts"
import { within } from "../support/fair-clock.ts"
import { chatWords, type Exchange, heldBack, json, type Script, silent, sse } from "../support/provider.ts"
import { thrown } from "../support/thrown.ts"
import {
  answers,
  describeBoth,
  failure,
  first,
  newProviders,
  routes,
  second,
  send,
  textOf,
  upstream,
} from "./calling.ts"

newProviders()

function call(overrides: Partial<Outgoing> = {}, place: Partial<Upstream> = {}) {
  return send(routes(upstream(first.url, place)), { stream: true, ...overrides })
}

/** What was sent over loopback has been read when a round trip that began later is over. */
async function arrival(): Promise<void> {
  second.replyOnce(answers)
  await (await fetch(second.url)).arrayBuffer()
}

/** Reads a reply until its `[DONE]`, like the relay does. */
async function readToDone({ body }: Awaited<ReturnType<typeof call>>) {
  for (let text = ""; !text.includes("[DONE]"); ) {
    const part = await body.read()
    if (part === null) throw new Error("there was no [DONE]")
    text += Buffer.from(part).toString()
  }
  return body
}

const stream =
  (after: (exchange: Exchange) => unknown): Script =>
  async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream" })
    await exchange.chunk("data: {}\n\n")
    await exchange.chunk("data: [DONE]\n\n")
    await after(exchange)
  }

describeBoth("a connection is used again", () => {
  test("by 20 JSON calls in a row", async () => {
    first.reply(answers)
    for (let n = 0; n < 20; n++) await textOf((await call({ stream: false })).body)
    expect(first.requests).toHaveLength(20)
    expect(first.connections.opened).toBe(1)
  })

  const endings: [name: string, script: Script][] = [
    ["at once", sse(chatWords("a", "b"))],
    ["20 ms later", stream((exchange) => Bun.sleep(20).then(() => exchange.end()))],
    ["after a comment", stream((exchange) => exchange.chunk(": bye\n\n").then(() => exchange.end()))],
  ]
  test.each(endings)("by 10 streams in a row that end %s after their [DONE]", async (_name, script) => {
    first.reply(script)
    for (let n = 0; n < 10; n++) {
      const reply = await call()
      await drainBody(await readToDone(reply))
      reply.body.cancel()
    }
    expect(first.requests).toHaveLength(10)
    expect(first.connections.opened).toBe(1)
  })

  const slowly =
    (status: number): Script =>
    async (exchange) => {
      await exchange.head(status, { "content-type": "application/json" })
      await exchange.chunk('{"error":')
      await Bun.sleep(20)
      await exchange.chunk('{"message":"No."}}')
      await exchange.end()
    }

  test("after a refusal, read or not, even when its body is slow", async () => {
    const statuses = [400, 404, 422, 401, 403, 429, 500, 503, 307]
    for (const [n, status] of statuses.entries()) {
      first.replyOnce(slowly(status))
      await call().catch(() => {})
      await (await first.exchange(n + 1)).ended
      await arrival()
    }
    expect(first.requests).toHaveLength(9)
    expect(first.connections.opened).toBe(1)
  })

  test("after a refusal that was passed on to the next upstream", async () => {
    second.reply(answers)
    const both = routes(upstream(first.url), upstream(second.url, { name: "second" }))
    for (const n of [1, 2, 3]) {
      first.replyOnce(slowly(503))
      await textOf((await send(both)).body)
      await (await first.exchange(n)).ended
      await arrival()
    }
    expect(first.connections.opened).toBe(1)
  })

  test("and cancelling a reply that has ended leaves its next user alone", async () => {
    first.replyOnce(answers)
    const earlier = await call()
    await textOf(earlier.body)
    const gate = Promise.withResolvers<void>()
    first.replyOnce(async (exchange) => {
      await exchange.head(200)
      await exchange.chunk("half ")
      await gate.promise
      await exchange.chunk("whole")
      await exchange.end()
    })
    const later = await call()
    expect(first.requests[1]?.connection).toBe(1)
    earlier.body.cancel()
    gate.resolve()
    expect(await textOf(later.body)).toBe("half whole")
  })
})

describe("a rest that does not end after [DONE] is cut", () => {
  const rows: [name: string, after: (exchange: Exchange) => unknown][] = [
    ["silence", () => {}],
    [
      "a drip",
      async (exchange) => {
        while (await exchange.chunk(": \n\n")) await Bun.sleep(10)
      },
    ],
    [
      "a flood",
      async (exchange) => {
        const piece = Buffer.alloc(65_536, "x")
        while (await exchange.chunk(piece));
      },
    ],
    ["a reset", (exchange) => Bun.sleep(20).then(() => exchange.reset())],
  ]
  test.each(rows)("%s", async (_name, after) => {
    first.reply(stream(after))
    const reader = await readToDone(await call())
    const exchange = await first.exchange(1)
    const cut = within(500, exchange.closed)
    await drainBody(reader)
    expect(await cut).toBe(true)
    expect(exchange.generated_bytes).toBeLessThan(32 << 20)
  })
})

/** Within 600 ms: an answer that is only forgotten is closed too, by the garbage collector, about a second later. */
describeBoth("a refusal whose body does not end is cut", () => {
  const endless =
    (status: number): Script =>
    async (exchange) => {
      await exchange.head(status)
      await exchange.chunk("{")
    }

  test("when nothing of it is told", async () => {
    first.reply(endless(503))
    expect(await thrown(call())).toMatchObject({ code: "upstream_unavailable" })
    const exchange = await first.exchange(1)
    expect(await within(600, exchange.closed)).toBe(true)
    expect(exchange.closed_by).toBe("gateway")
  })

  test("when it was passed on", async () => {
    first.reply(endless(500))
    second.reply(answers)
    const both = routes(upstream(first.url), upstream(second.url, { name: "second" }))
    await textOf((await send(both)).body)
    const exchange = await first.exchange(1)
    expect(await within(600, exchange.closed)).toBe(true)
    expect(exchange.closed_by).toBe("gateway")
  })
})

describeBoth("an abandoned call closes its connection within 250 ms and throws its signal's reason", () => {
  const reason = new Error("the client left")

  test("before it began: nothing is sent", async () => {
    expect(await thrown(call({ signal: AbortSignal.abort(reason) }))).toBe(reason)
    expect(first.connections.opened).toBe(0)
  })

  const waits: [name: string, script: Script][] = [
    ["without an answer", silent()],
    ["inside the headers", async (exchange) => void (await exchange.raw("HTTP/1.1 200 OK\r\nx-a: "))],
    [
      "inside a refusal's body",
      async (exchange) => {
        await exchange.head(400, { "content-type": "application/json" })
        await exchange.chunk('{"error":')
      },
    ],
  ]
  test.each(waits)("%s", async (_name, script) => {
    first.reply(script)
    const leaving = new AbortController()
    const outcome = call({ signal: leaving.signal }).catch((error: unknown) => error)
    const exchange = await first.exchange(1)
    await Bun.sleep(30)
    const cut = within(250, exchange.closed)
    leaving.abort(reason)
    expect(await outcome).toBe(reason)
    expect(await cut).toBe(true)
    expect(exchange.closed_by).toBe("gateway")
  })

  test("no further upstream is asked", async () => {
    first.reply(silent())
    const leaving = new AbortController()
    const both = routes(upstream(first.url), upstream(second.url, { name: "second" }))
    const outcome = send(both, { signal: leaving.signal }).catch((error: unknown) => error)
    await first.exchange(1)
    leaving.abort(reason)
    expect(await outcome).toBe(reason)
    expect(second.connections.opened).toBe(0)
  })
})

describeBoth("a reply that is given up closes its connection within 250 ms", () => {
  const endless: Script = async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream" })
    while (await exchange.chunk("data: {}\n\n")) await Bun.sleep(5)
  }
  const flood: Script = async (exchange) => {
    await exchange.head(200)
    const piece = Buffer.alloc(65_536, "x")
    while (await exchange.chunk(piece));
  }
  const quiet: Script = async (exchange) => {
    await exchange.head(200)
    await exchange.chunk("data: {}\n\n")
  }
  const rows: [name: string, script: Script, reads: boolean][] = [
    ["in full flow", endless, true],
    ["in full flow, unread", endless, false],
    ["with an unread flood", flood, false],
    ["in silence, while a read waits", quiet, true],
    ["in silence, unread", quiet, false],
  ]
  test.each(rows)("%s", async (_name, script, reads) => {
    first.reply(script)
    for (const by of ["cancel", "signal"] as const) {
      const leaving = new AbortController()
      const reply = await call({ signal: leaving.signal })
      const exchange = await first.exchange(first.exchanges.length)
      const text = reads ? textOf(reply.body).catch((error: unknown) => error) : null
      await Bun.sleep(20)
      const cut = within(250, exchange.closed)
      if (by === "cancel") reply.body.cancel()
      else leaving.abort()
      expect(await cut).toBe(true)
      expect(exchange.closed_by).toBe("gateway")
      if (text !== null) expect(await text).toBeInstanceOf(Error)
      reply.body.cancel()
    }
  })
})

describeBoth("what is sent once, and at once", () => {
  test("a provider that dies on a used connection sees the request once (reliability F10)", async () => {
    first.replyOnce(answers, (exchange) => exchange.reset())
    await textOf((await call()).body)
    expect(await thrown(call())).toMatchObject({ code: "upstream_error" })
    expect((await first.exchange(2)).request.connection).toBe(1)
    await Bun.sleep(50)
    expect(first.requests).toHaveLength(2)
  })

  test("200 calls at once, each on a connection of its own, all answered", async () => {
    const gate = heldBack(answers)
    first.reply(gate.held)
    const calls = Array.from({ length: 200 }, () => call({ stream: false }).then(({ body }) => textOf(body)))
    await first.exchange(200)
    gate.release()
    expect(new Set(await Promise.all(calls))).toHaveLength(1)
  })
})

describe("D59 an idle connection is used again while the server keeps it", () => {
  const kept = (keep_alive: string): Script => json(200, {}, { "keep-alive": keep_alive })
  const rows: [name: string, script: Script, place: Partial<Upstream>, opened: number][] = [
    ["shorter than idle_connection", answers, { idle_connection_ms: 10_000 }, 1],
    ["longer than idle_connection", answers, { idle_connection_ms: 20 }, 2],
    ["longer than the server says, less a second", kept("timeout=1"), {}, 2],
    ["shorter than the server says", kept("max=100, timeout=60"), {}, 1],
    [
      "longer than idle_connection, which is less than the server says",
      kept("timeout=60"),
      { idle_connection_ms: 20 },
      2,
    ],
    ["with a Keep-Alive that says no time", kept("max=5"), {}, 1],
  ]
  test.each(rows)("%s", async (_name, script, place, opened) => {
    first.reply(script)
    await textOf((await call({}, place)).body)
    await Bun.sleep(50)
    await textOf((await call({}, place)).body)
    expect(first.connections.opened).toBe(opened)
  })

  test("by fetch, but for a minute no more once one was lost", async () => {
    first.reply(answers)
    first.replyOnce(answers, (exchange) => exchange.reset())
    const place = routes(upstream(first.url, { transport: "fetch" }))
    const once = async () => await textOf((await send(place)).body)
    await once()
    expect(await thrown(once())).toMatchObject({ code: "upstream_error" })
    for (let n = 0; n < 2; n++) await once()
    expect(first.requests.map(({ connection }) => connection)).toEqual([1, 1, 2, 3])
  })

  test("by fetch, and one that the server has closed is not used", async () => {
    first.reply(answers)
    const place = routes(upstream(first.url, { transport: "fetch" }))
    const once = async () => await textOf((await send(place)).body)
    for (let n = 0; n < 2; n++) {
      await once()
      await once()
      const used = first.exchanges.at(-1)
      used?.close()
      await used?.closed
    }
    expect(first.requests.map(({ connection }) => connection)).toEqual([1, 1, 2, 2])
  })

  test.each([
    ["https://first.test", null, 30],
    ["http://first.test", null, 4],
    ["https://first.test", 9_000, 9],
  ])("by fetch: %s with idle_connection %p", (base_url, idle_connection_ms, idle_s) => {
    const options: unknown[] = []
    const { FetchSession } = Bun
    Reflect.set(Bun, "FetchSession", function Session(given: unknown) {
      options.push(given)
    })
    // Sessions are kept by what they are opened with: this proxy is no other test's.
    sessionOf({ base_url, proxy: "http://idle.test:1", tls: null, idle_connection_ms })
    Reflect.set(Bun, "FetchSession", FetchSession)
    expect(options).toMatchObject([{ keepAlive: { idleTimeout: idle_s } }])
  })

  test("for 4 s where neither says a time, without TLS", async () => {
    first.reply(answers)
    const real = performance.now.bind(performance)
    for (const [later_ms, opened] of [
      [3_000, 1],
      [5_000, 2],
    ] as const) {
      await textOf((await call()).body)
      await arrival()
      const clock = spyOn(performance, "now").mockImplementation(() => real() + later_ms)
      await textOf((await call()).body)
      clock.mockRestore()
      expect(first.connections.opened).toBe(opened)
    }
  })

  test("a server that closes right after each answer fails no call; the first that does not costs 20 ms", async () => {
    first.reply(async (exchange) => {
      await answers(exchange)
      setTimeout(() => exchange.close(), 8)
    })
    const rounds = Array.from({ length: 8 }, async () => {
      for (let n = 0; n < 5; n++) await textOf((await call()).body)
    })
    await Promise.all(rounds)
    expect(first.requests).toHaveLength(40)
    expect(first.connections.opened).toBe(40)
    first.reply(answers)
    for (let n = 0; n < 5; n++) await textOf((await call()).body)
    expect(first.connections.opened).toBe(41)
  })

  test("its end is noticed before it is used: at once after the answer, and after some time", async () => {
    for (const idle_ms of [0, 600]) {
      first.reply(answers)
      await textOf((await call()).body)
      const used = first.exchanges.at(-1)
      if (idle_ms > 0) await Bun.sleep(idle_ms)
      used?.close()
      await textOf((await call()).body)
    }
    expect(first.requests.map(({ connection }) => connection)).toEqual([1, 2, 2, 3])
  })
})

describeBoth("D59 a body that does not come whole is an error where the transport notices", (transport) => {
  const CHUNKED = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n"
  const rows: [name: string, answer: string, end: "close" | "reset", told_by_fetch: boolean][] = [
    ["that ends with the connection, by a reset", "HTTP/1.1 200 OK\r\n\r\n{}", "reset", false],
    ["in chunks without the last one", CHUNKED, "close", true],
    ["in chunks without the last line break", `${CHUNKED}0\r\n`, "close", false],
    ["shorter than its length", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}", "close", true],
  ]
  test.each(rows)("%s", async (_name, answer, end, told_by_fetch) => {
    first.reply(async (exchange) => {
      await exchange.raw(answer)
      await arrival()
      exchange[end]()
    })
    const { body } = await call()
    // The runtime takes some for whole bodies.
    if (transport === "fetch" && !told_by_fetch) expect(await textOf(body)).toBe("{}")
    else expect(await thrown(textOf(body))).toMatchObject({ code: "ECONNRESET" })
  })
})

test("D59 an answer that came before the body was read, and a reset behind it: the answer is told", async () => {
  const refusal = '{"error":{"message":"Too big"}}'
  const early = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data(socket) {
        socket.write(`HTTP/1.1 413 No\r\ncontent-length: ${refusal.length}\r\n\r\n${refusal}`)
        socket.terminate()
      },
    },
  })
  const place = upstream(`http://127.0.0.1:${early.port}`)
  const body = () => ["x".repeat(4_000_000)]
  const error = await failure(send(routes(place), { body }))
  expect(error).toMatchObject({ code: "request_too_large", message: "Too big" })
  early.stop(true)
})

describe("D25 an answer that is compressed all the same is decoded", () => {
  const codings: [coding: string, encode: (data: Uint8Array) => Uint8Array][] = [
    ["gzip", gzipSync],
    ["deflate", deflateSync],
    ["br", (data) => brotliCompressSync(data, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } })],
    ["zstd", zstdCompressSync],
  ]
  const coded =
    (status: number, coding: string, body: Uint8Array, sent = body.length): Script =>
    async (exchange) => {
      await exchange.head(status, { "content-encoding": coding }, { length: body.length })
      await exchange.chunk(body.subarray(0, sent))
      if (sent === body.length) await exchange.end()
      else exchange.close()
    }

  test.each(codings)("%s: the whole body, a refusal, and what came of a cut one", async (coding, encode) => {
    const text = "data: {}\n\n".repeat(5_000)
    first.replyOnce(coded(200, coding, encode(Buffer.from(text))))
    const reply = await call()
    expect(reply.length).toBeNull()
    expect(await textOf(reply.body)).toBe(text)

    first.replyOnce(coded(400, coding, encode(Buffer.from('{"error":{"message":"Too hot."}}'))))
    expect((await failure(call())).message).toBe("Too hot.")

    const noise = Buffer.from(randomBytes(150_000).toString("hex"))
    const body = encode(noise)
    first.replyOnce(coded(200, coding, body, body.length - 100))
    const cut = (await call()).body
    let came_bytes = 0
    const error = await thrown(
      (async () => {
        for (let part = await cut.read(); part !== null; part = await cut.read()) came_bytes += part.length
      })(),
    )
    expect(error).toMatchObject({ code: "ECONNRESET" })
    expect(came_bytes).toBeGreaterThan(20_000)
  })

  test("an event is read as soon as it comes", async () => {
    const zip = createGzip()
    first.replyOnce(async (exchange) => {
      await exchange.head(200, { "content-encoding": "gzip" })
      zip.on("data", (part: Buffer) => void exchange.chunk(part))
      zip.write("data: first\n\n")
      zip.flush(constants.Z_SYNC_FLUSH)
    })
    const { body } = await call({ stream: true })
    expect(Buffer.from((await body.read()) ?? []).toString()).toBe("data: first\n\n")
    body.cancel()
    await (await first.exchange(1)).closed
  })
})

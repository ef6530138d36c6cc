import { describe, expect, test } from "bun:test"
import type { Route } from "../../src/config/config.ts"
import { CircuitBreakers } from "../../src/upstream/circuit-breakers.ts"
import type { Outcome } from "../../src/upstream/forward.ts"
import { within } from "../support/fair-clock.ts"
import { json, type Script, silent, sse, startProvider } from "../support/provider.ts"
import { thrown } from "../support/thrown.ts"
import {
  API_KEY,
  answers,
  closes,
  describeBoth,
  failure,
  first,
  hasty,
  newProviders,
  raw,
  resets,
  routes,
  second,
  send,
  textOf,
  upstream,
} from "./calling.ts"

newProviders()

const other = (overrides = {}) => upstream(second.url, { name: "second", api_key: "sk-second", ...overrides })

describeBoth("what the provider sees (D25)", (transport) => {
  test("a chat call: path, body with its own model name, and these headers only", async () => {
    first.reply(answers)
    const reply = await send(routes(upstream(`${first.url}/v1`)))
    expect(JSON.parse(await textOf(reply.body))).toMatchObject({ object: "chat.completion" })
    const [request] = first.requests
    expect(request).toMatchObject({ method: "POST", path: "/v1/chat/completions" })
    expect(request?.json).toEqual({ model: "model-of-first", messages: [] })
    expect(request?.headers).toEqual({
      host: `127.0.0.1:${first.port}`,
      "content-length": String(request?.body.length),
      "content-type": "application/json",
      accept: "application/json",
      "accept-encoding": "identity",
      "user-agent": "tollgate",
      "x-request-id": "0199-request",
      authorization: `Bearer ${API_KEY}`,
      ...(transport === "fetch" && { connection: "keep-alive" }),
    })
  })

  test("a messages-style call: x-api-key and the version headers", async () => {
    first.reply(json(200, { input_tokens: 7 }))
    const headers = { "anthropic-version": "2023-06-01", "anthropic-beta": "a,b" }
    const call = { path: "/v1/messages/count_tokens", headers }
    const reply = await send(routes(upstream(first.url, { family: "messages" })), call)
    await textOf(reply.body)
    expect(first.requests[0]?.headers).toMatchObject({ ...headers, "x-api-key": API_KEY })
    expect(first.requests[0]?.headers).not.toHaveProperty("authorization")
  })

  test("a body that is not ASCII arrives whole", async () => {
    first.reply(answers)
    const call = { body: ({ model }: Route) => [JSON.stringify({ model, text: "é€😀\ud800" })] }
    await textOf((await send(routes(upstream(first.url)), call)).body)
    expect(first.requests[0]?.json).toEqual({ model: "model-of-first", text: "é€😀\ud800" })
  })

  test("a body in parts, more than the socket takes at once, arrives whole", async () => {
    first.reply(answers)
    const [a, b, c] = ["a", "é", "c"].map((letter) => letter.repeat(8 << 20))
    const call = { body: () => ["{", `"a":"${a}"`, `,"b":"${b}"`, `,"c":"${c}"`, "}"] }
    const timeouts = { connect_ms: 60_000, first_byte_ms: 60_000, idle_ms: 60_000, total_ms: 60_000 }
    await textOf((await send(routes(upstream(first.url, { timeouts })), call)).body)
    expect(Bun.deepEquals(first.requests[0]?.json, { a, b, c })).toBeTrue()
  })
})

describeBoth("a 2xx is a reply, whatever its body", () => {
  const rows: [name: string, script: Script, reply: object][] = [
    ["JSON", answers, { status: 200 }],
    ["a stream", sse([]), { status: 200 }],
    ["no content (D5, D36)", raw("HTTP/1.1 204 No Content\r\n\r\n"), { status: 204 }],
    [
      "201, type in capitals",
      raw("HTTP/1.1 201 Created\r\nContent-Type: Text/HTML; x=y\r\n\r\n"),
      { status: 201 },
    ],
    [
      "after an early hint",
      raw("HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
      { status: 200 },
    ],
  ]
  test.each(rows)("%s", async (_name, script, expected) => {
    first.reply(script)
    const before_ms = performance.now()
    const reply = await send(routes(upstream(first.url)), { stream: true })
    expect(reply).toMatchObject({ route: { upstream: { name: "first" } }, ...expected })
    expect(reply.began_ms).toBeWithin(before_ms, performance.now())
    reply.body.cancel()
    reply.body.cancel()
  })
})

describeBoth("D14 which answers are passed on to the next upstream", () => {
  const passed: [name: string, script: Script][] = [
    ...[401, 402, 403, 408, 429, 500, 502, 503, 504, 529].map((status): [string, Script] => [
      `${status}`,
      json(status, {}),
    ]),
    ["reset before the headers", resets],
    ["closed before the headers", closes],
    ["cut inside the headers", raw("HTTP/1.1 200 OK\r\ncontent-ty")],
    ["not HTTP", raw("SSH-2.0-OpenSSH_9.2\r\n")],
    ["compressed 503", json(503, {}, { "content-encoding": "gzip" })],
  ]
  test.each(passed)("%s: yes", async (_name, script) => {
    first.reply(script)
    second.reply(answers)
    for (const stream of [true, false]) {
      const reply = await send(routes(upstream(first.url), other()), { stream })
      await textOf(reply.body)
      expect(reply.route.upstream.name).toBe("second")
    }
    expect(first.requests).toHaveLength(2)
    expect(second.requests[0]?.json).toMatchObject({ model: "model-of-second" })
    expect(second.requests[0]?.headers.authorization).toBe("Bearer sk-second")
  })

  test("nothing listens there: yes", async () => {
    second.reply(answers)
    const gone = await startProvider()
    await gone.stop()
    const reply = await send(routes(upstream(gone.url), other()))
    expect(reply.route.upstream.name).toBe("second")
    reply.body.cancel()
  })

  const kept: [name: string, script: Script][] = [
    ...[400, 404, 405, 409, 413, 418, 422, 499].map((status): [string, Script] => [
      `${status}`,
      json(status, {}),
    ]),
    ...[301, 302, 303, 307, 308].map((status): [string, Script] => [
      `${status}`,
      json(status, {}, { location: "/elsewhere" }),
    ]),
    ...[501, 505, 520, 599, 600, 999].map((status): [string, Script] => [`${status}`, json(status, {})]),
    ["200 in an unknown coding", json(200, {}, { "content-encoding": "x-unknown" })],
    ["200 with too large headers", json(200, {}, { "x-large": "x".repeat(70_000) })],
  ]
  test.each(kept)("%s: no", async (_name, script) => {
    first.reply(script)
    for (const stream of [true, false]) {
      await failure(send(routes(upstream(first.url), other()), { stream }))
    }
    expect(first.requests).toHaveLength(2)
    expect(second.requests).toHaveLength(0)
  })

  test("a stream without headers within first_byte (D31): yes, and the silent connection is closed", async () => {
    first.reply(silent())
    second.reply(answers)
    const timeouts = { connect_ms: 5_000, first_byte_ms: 60, idle_ms: 60_000, total_ms: 60_000 }
    const reply = await send(routes(upstream(first.url, { timeouts }), other()), { stream: true })
    expect(reply.route.upstream.name).toBe("second")
    reply.body.cancel()
    const [exchange] = first.exchanges
    await exchange?.closed
    expect(exchange?.closed_by).toBe("gateway")
  })

  test("a stream whose headers came in time is left alone by first_byte (D31)", async () => {
    first.reply(async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk("half ")
      await Bun.sleep(450)
      await exchange.chunk("whole")
      await exchange.end()
    })
    const reply = await send(
      routes(
        upstream(first.url, {
          timeouts: { connect_ms: 5_000, first_byte_ms: 400, idle_ms: 5_000, total_ms: 5_000 },
        }),
      ),
      { stream: true },
    )
    expect(await textOf(reply.body)).toBe("half whole")
  })

  test("a JSON call waits past first_byte, and its total timeout is passed on to nobody (D31)", async () => {
    first.replyOnce(async (exchange) => {
      await Bun.sleep(80)
      await answers(exchange)
    })
    const slow = routes(upstream(first.url, { timeouts: { ...hasty.timeouts, total_ms: 2_000 } }), other())
    expect((await send(slow)).status).toBe(200)
    first.reply(silent())
    const late = send(routes(upstream(first.url, hasty), other()))
    expect((await failure(late)).code).toBe("upstream_timeout")
    expect(second.requests).toHaveLength(0)
  })
})

describe("D31, D46 the total timeout is over all attempts", () => {
  test("it runs from the first one", async () => {
    first.reply(json(503, {}))
    second.reply(answers)
    const reply = await send(routes(upstream(first.url), other()))
    expect(reply.route.upstream.name).toBe("second")
    expect(reply.began_ms).toBeLessThanOrEqual((await first.exchange(1)).request.arrived_ms)
    reply.body.cancel()
  })

  test.each([true, false])("an upstream for which it is over is not asked (stream %p)", async (stream) => {
    first.reply(async (exchange) => {
      await Bun.sleep(hasty.timeouts.total_ms + 10)
      await json(503, {})(exchange)
    })
    const both = routes(upstream(first.url), other(hasty))
    const error = await failure(send(both, { stream }))
    expect(error.code).toBe("upstream_unavailable")
    expect(second.requests).toHaveLength(0)
  })

  test("a later attempt gets what is left", async () => {
    first.reply(async (exchange) => {
      await Bun.sleep(500)
      await json(503, {})(exchange)
    })
    second.reply(silent())
    const timeouts = { connect_ms: 5_000, first_byte_ms: 5_000, idle_ms: 5_000, total_ms: 1_500 }
    const both = routes(upstream(first.url), other({ timeouts }))
    const call = failure(send(both))
    await second.exchange(1)
    expect(await within(1_250, call)).toBe(true)
    expect((await call).code).toBe("upstream_timeout")
  })
})

describeBoth("D14 when all failed, the answer is that of the last one tried", () => {
  const busy = json(429, {}, { "retry-after": "20" })
  const rows: [name: string, one: Script, two: Script, status: number, code: string][] = [
    ["500, 503", json(500, {}), json(503, {}), 503, "upstream_unavailable"],
    ["503, 500", json(503, {}), json(500, {}), 502, "upstream_error"],
    ["reset, 429", resets, busy, 429, "rate_limited"],
    ["429, reset", busy, resets, 502, "upstream_error"],
  ]
  test.each(rows)("%s", async (_name, one, two, status, code) => {
    first.reply(one)
    second.reply(two)
    const error = await failure(send(routes(upstream(first.url), other())))
    expect({ status: error.status, code: error.code }).toEqual({ status, code: code as typeof error.code })
    expect(second.requests).toHaveLength(1)
  })

  test("one that was skipped is not the last one tried, and what the first said is still read", async () => {
    const breakers = new CircuitBreakers()
    for (let n = 0; n < 5; n++) breakers.tryAcquire("second", "key")?.("unreachable")
    first.replyOnce(json(429, {}, { "retry-after": "20" }))
    const error = await failure(send(routes(upstream(first.url), other()), {}, breakers))
    expect(error.code).toBe("rate_limited")
    expect(error.detail.headers).toEqual({ "retry-after": "20" })
    expect(second.requests).toHaveLength(0)
  })
})

describeBoth("outcomes", () => {
  test("every attempt is counted with its outcome", async () => {
    const seen: [upstream: string, outcome: Outcome, in_time: boolean][] = []
    const attempts = {
      attempted: ({ name }: { name: string }, outcome: Outcome, duration_ms: number) => {
        seen.push([name, outcome, duration_ms >= 0 && duration_ms < 5_000])
      },
    }
    const breakers = new CircuitBreakers()
    const both = (limits = {}) => routes(upstream(first.url, limits), other())
    first.replyOnce(json(503, {}), resets, silent())
    second.reply(answers)
    for (const limits of [{}, {}, hasty]) {
      ;(await send(both(limits), { stream: true }, breakers, attempts)).body.cancel()
    }
    const leaving = new AbortController()
    first.replyOnce(silent())
    const call = thrown(send(both(), { signal: leaving.signal }, breakers, attempts))
    await first.exchange(4)
    leaving.abort()
    await call
    const gone = routes(upstream("http://no-such-host.invalid"))
    await failure(send(gone, {}, breakers, attempts))
    expect(seen).toEqual([
      ["first", 503, true],
      ["second", 200, true],
      ["first", "broken", true],
      ["second", 200, true],
      ["first", "timeout", true],
      ["second", 200, true],
      ["first", "abandoned", true],
      ["first", "unreachable", true],
    ])
  })
})

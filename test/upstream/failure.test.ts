import { expect, test } from "bun:test"
import { createServer } from "node:net"
import { type ErrorCode, errorBody } from "../../src/errors.ts"
import { CircuitBreakers } from "../../src/upstream/circuit-breakers.ts"
import type { Attempts } from "../../src/upstream/forward.ts"
import { json, type Script, silent, startProvider } from "../support/provider.ts"
import {
  API_KEY,
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
  upstream,
} from "./calling.ts"

newProviders()

describeBoth("D17 what a client is told", (transport) => {
  test("the provider's own words and identifiers, without its credential", async () => {
    const said = {
      message: `Too long. ${API_KEY}`,
      code: "context_length_exceeded",
      param: "messages",
      type: "bad",
    }
    first.reply(json(400, { error: said, organization: "org-secret" }))
    const error = await failure(send(routes(upstream(first.url))))
    expect(error.status).toBe(400)
    expect(errorBody(error, "id-1").error).toEqual({ ...said, message: "Too long. [redacted]" })
  })

  const unread: [name: string, script: Script][] = [
    ["longer than 64 KiB", json(400, { error: { message: "secret", pad: "x".repeat(100_000) } })],
    ["compressed", json(400, { error: { message: "secret" } }, { "content-encoding": "gzip" })],
    ["cut", raw('HTTP/1.1 400 Bad\r\ncontent-length: 99\r\n\r\n{"error":{"message":"secret"}}')],
    [
      "without an end",
      async (exchange) => {
        await exchange.head(400)
        await exchange.chunk('{"error":{"message":"secret"}}')
      },
    ],
    ["empty", raw("HTTP/1.1 400 Bad\r\ncontent-length: 0\r\n\r\n")],
    ["a page", json(400, "<html>secret</html>", { "content-type": "text/html" })],
  ]
  test.each(unread)("our own words where its body is %s", async (_name, script) => {
    first.reply(script)
    const error = await failure(send(routes(upstream(first.url))))
    expect(error.status).toBe(400)
    expect(error.message).toBe(
      "The provider refused the request as invalid. Compare it with the provider's API reference.",
    )
  })

  test.each([
    [
      "in plain text",
      "text/plain; charset=utf-8",
      `max_tokens is too large. ${API_KEY}\n`,
      "max_tokens is too large. [redacted]",
    ],
    ["in JSON that is called plain text", "text/plain", '{"detail":"No such model."}', "No such model."],
  ])("the provider's own words %s", async (_form, type, body, message) => {
    for (const status of [400, 404]) {
      first.replyOnce(json(status, body, { "content-type": type }))
      const call = send(routes(upstream(first.url)))
      expect(await failure(call)).toMatchObject({ status, message })
    }
  })

  test("a redirect is not followed, and its target learns nothing", async () => {
    for (const status of [301, 302, 303, 307, 308]) {
      first.replyOnce(json(status, {}, { location: `${second.url}/stolen` }))
      const chat = failure(send(routes(upstream(first.url))))
      expect((await chat).code).toBe("upstream_error")
      first.replyOnce(json(status, {}, { location: `${second.url}/stolen` }))
      const messages = routes(upstream(first.url, { family: "messages" }))
      expect((await failure(send(messages))).code).toBe("upstream_error")
    }
    expect(first.requests).toHaveLength(10)
    expect(second.connections.opened).toBe(0)
  })

  const broken: [name: string, script: Script, code?: "upstream_timeout"][] = [
    ["an unknown coding of a 200", json(200, {}, { "content-encoding": "x-unknown" })],
    ["1 MB of headers", json(200, {}, { "x-large": "x".repeat(1 << 20) })],
    ["NUL in a header", json(200, {}, { "x-nul": "a\0b" })],
    ["status 099", raw("HTTP/1.1 099 Odd\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")],
    ["status 999", json(999, {})],
    ["unasked upgrade", raw("HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")],
    ["two lengths", raw("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}")],
    ["reset before the headers", resets],
    ["closed before the headers", closes],
    ["silence", silent(), "upstream_timeout"],
    [
      "dripping headers",
      async (exchange) => {
        while (await exchange.raw("H")) await Bun.sleep(10)
      },
      "upstream_timeout",
    ],
  ]
  // The runtime takes it.
  if (transport === "direct")
    broken.push(["bare line feeds", raw("HTTP/1.1 200 OK\ncontent-length: 2\n\n{}")])
  test.each(broken)("%s", async (_name, script, code: ErrorCode = "upstream_error") => {
    first.reply(script)
    const place = upstream(first.url, code === "upstream_timeout" ? hasty : {})
    for (const stream of [true, false]) {
      const error = await failure(send(routes(place), { stream }))
      expect(error.code).toBe(code)
    }
  })

  test("a connection that is refused, a name that does not resolve, a TLS that fails: 503", async () => {
    const gone = await startProvider()
    await gone.stop()
    const plain = createServer((socket) =>
      socket.on("error", () => {}).once("data", () => socket.end("HTTP/1.1 400 Bad\r\n\r\n")),
    )
    await new Promise<void>((resolve) => plain.listen(first.port, "127.0.0.2", resolve))
    for (const url of [gone.url, "http://no-such-host.invalid", `https://127.0.0.2:${first.port}`]) {
      const error = await failure(send(routes(upstream(url))))
      expect(error.code).toBe("upstream_unavailable")
    }
    plain.close()
  })

  test("what is kept for the log names the upstream and the fault, and no credential", async () => {
    const rows: [script: Script, fault: string | null][] = [
      [json(401, { error: { message: API_KEY } }), "status 401: key or account refused"],
      [json(429, {}), "status 429"],
      [json(503, {}), "status 503"],
      [json(200, {}, { "content-encoding": "gzip, br" }), "body in an unknown coding"],
      [resets, "broken (ECONNRESET)"],
      [json(400, { error: { message: API_KEY } }), null],
      [json(404, {}), null],
    ]
    for (const [script, expected] of rows) {
      first.replyOnce(script)
      const seen: [name: string, fault: string | null][] = []
      const attempts: Attempts = {
        attempted: ({ name }, _outcome, _duration_ms, fault) => void seen.push([name, fault]),
      }
      await failure(send(routes(upstream(first.url)), {}, new CircuitBreakers(), attempts))
      expect(seen).toEqual([["first", expected]])
    }
    const unsendable = routes(upstream(first.url, { api_key: `${API_KEY}\nx` }))
    const error = await failure(send(unsendable))
    expect(`${error.stack} ${Bun.inspect(error)}`).not.toContain(API_KEY)
  })
})

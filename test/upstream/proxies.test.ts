import { afterAll, describe, expect, test } from "bun:test"
import { connect, createServer } from "node:net"
import { createServer as createTlsServer } from "node:tls"
import type { Upstream } from "../../src/config/config.ts"
import { loadConfig } from "../../src/config/load.ts"
import { CircuitBreakers } from "../../src/upstream/circuit-breakers.ts"
import type { Attempts } from "../../src/upstream/forward.ts"
import { and, sources } from "../config/small.ts"
import { chatWords, json, sse, startProvider } from "../support/provider.ts"
import { answers, failure, hasty, routes, send, textOf, upstream } from "./calling.ts"
import { certificates } from "./certificates.ts"
import { Listeners } from "./listeners.ts"

const PASSWORD = "proxy-canary/5e1"
const USER_INFO = `gateway:${encodeURIComponent(PASSWORD)}`

/** A proxy for plain requests and for tunnels, all of which go to `target`, or are all refused. */
interface ScriptedProxy {
  readonly url: string
  /** The heads it got: of requests, and of `CONNECT`. */
  readonly heads: string[]
  target: number
}

const listeners = new Listeners()

async function startProxy(refuses = false): Promise<ScriptedProxy> {
  const heads: string[] = []
  const server = createServer((client) => {
    client.once("data", (first: Buffer) => {
      const head = first.toString("latin1").split("\r\n\r\n", 1)[0] ?? ""
      heads.push(head)
      if (refuses) return void client.end("HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n")
      const beyond = connect(proxy.target, "127.0.0.1", () => {
        if (head.startsWith("CONNECT")) client.write("HTTP/1.1 200 Connection established\r\n\r\n")
        else beyond.write(first)
        client.pipe(beyond).pipe(client)
      })
      listeners.add(beyond.on("error", () => client.destroy()))
    })
  })
  const proxy: ScriptedProxy = {
    url: `http://${USER_INFO}@127.0.0.1:${await listeners.listen(server)}`,
    heads,
    target: 0,
  }
  return proxy
}

/** Ends TLS in front of the provider. */
const made = await certificates()
const provider = await startProvider()
const second = await startProvider()
second.reply(answers)
const { cert, key } = made.server
const ender = createTlsServer({ cert, key }, (client) => {
  const beyond = connect(provider.port, "127.0.0.1")
  client.on("error", () => beyond.destroy()).pipe(beyond)
  beyond.on("error", () => client.destroy()).pipe(client)
})
const secured_port = await listeners.listen(ender)
const proxy = await startProxy()
const refusing = await startProxy(true)
afterAll(async () => {
  listeners.close()
  await provider.stop()
  await second.stop()
})

/** An upstream that only the proxy reaches, plain or by TLS in a tunnel. */
function behind(scheme: string, overrides: Partial<Upstream> = {}): Upstream {
  proxy.target = scheme === "https" ? secured_port : provider.port
  const host = scheme === "https" ? `localhost:${secured_port}` : "provider.test"
  return upstream(`${scheme}://${host}/v1`, {
    transport: "fetch",
    proxy: proxy.url,
    tls: { ca: made.ca.cert, cert: null, key: null },
    ...overrides,
  })
}

const call = (place: Upstream, stream = false) => send(routes(place), { stream })

describe.each(["http", "https"])("D59 an upstream behind a proxy (%s)", (scheme) => {
  test("JSON and a stream pass it; only the proxy gets its credentials", async () => {
    const before = provider.requests.length
    proxy.heads.length = 0
    provider.replyOnce(json(200, { ok: true }), sse(chatWords("a", "b")))
    const place = behind(scheme)
    expect(await textOf((await call(place)).body)).toBe('{"ok":true}')
    expect(await textOf((await call(place, true)).body)).toContain("[DONE]")
    const seen = provider.requests.slice(before)
    expect(seen.map(({ json }) => json)).toMatchObject([
      { model: "model-of-first" },
      { model: "model-of-first" },
    ])
    const basic = Buffer.from(`gateway:${PASSWORD}`).toString("base64")
    const first_line =
      scheme === "https"
        ? `CONNECT localhost:${secured_port} HTTP/1.1`
        : "POST http://provider.test/v1/chat/completions HTTP/1.1"
    expect(proxy.heads[0]).toStartWith(first_line)
    expect(proxy.heads[0]).toContain(`Proxy-Authorization: Basic ${basic}`)
    if (scheme === "https") expect(JSON.stringify(seen)).not.toContain(basic)
  })

  test.each([true, false])(
    "one that is down or refuses: the next upstream is asked (stream %p)",
    async (stream) => {
      const faults: (string | null)[] = []
      const attempts: Attempts = { attempted: (_upstream, _outcome, _ms, fault) => void faults.push(fault) }
      const down = `http://${USER_INFO}@127.0.0.1:1`
      for (const url of [down, refusing.url]) {
        const place = behind(scheme, { proxy: url })
        const both = routes(place, upstream(second.url, { name: "second" }))
        const reply = await send(both, { stream }, new CircuitBreakers(), attempts)
        expect(reply.route.upstream.name).toBe("second")
        await textOf(reply.body)
        const alone = await failure(call(place, stream))
        expect(alone.code).toBe("upstream_unavailable")
        expect(Bun.inspect(alone)).not.toContain("canary")
      }
      expect(faults).toEqual([
        "unreachable (ECONNREFUSED), through the proxy 127.0.0.1:1",
        null,
        `unreachable (PROXY_407), through the proxy ${new URL(refusing.url).host}`,
        null,
      ])
    },
  )

  test("one that is silent costs a stream first_byte, and a JSON call total (D31)", async () => {
    const silent = `http://127.0.0.1:${await listeners.listen(createServer())}`
    const both = () =>
      routes(behind(scheme, { proxy: silent, ...hasty }), upstream(second.url, { name: "second" }))
    const reply = await send(both(), { stream: true })
    expect(reply.route.upstream.name).toBe("second")
    await textOf(reply.body)
    const json_call = send(both())
    expect((await failure(json_call)).code).toBe("upstream_timeout")
  })
})

describe("D59 which proxy, and which transport", () => {
  /** The upstream of a configuration with these keys in it, and these of the file. */
  const read = (keys: object, file: object = {}, env: Record<string, string> = {}) => {
    const openai = { family: "chat", base_url: "https://api.test/v1", ...keys }
    return loadConfig(and({ upstreams: { openai }, ...file }), { ...sources, env }).upstreams[0]
  }

  const both = { HTTP_PROXY: "http://plain:1", https_proxy: "secured:2" }
  const rows: [
    what: string,
    keys: object,
    file: object,
    env: Record<string, string>,
    proxy: string | null,
  ][] = [
    ["none", {}, {}, {}, null],
    ["the environment's, by scheme", {}, {}, both, "http://secured:2"],
    ["the environment's, by scheme", { base_url: "http://host/v1" }, {}, both, "http://plain:1"],
    ["the file's before that", {}, { proxy: "http://file:3" }, both, "http://file:3"],
    [
      "the upstream's before that",
      { proxy: "http://own:4" },
      { proxy: "http://file:3" },
      both,
      "http://own:4",
    ],
    ["none for the upstream", { proxy: "none" }, { proxy: "http://file:3" }, both, null],
    ["none for all", {}, { proxy: "none" }, both, null],
    ["none with direct", { transport: "direct" }, { proxy: "http://file:3" }, both, null],
    ["none on loopback", { base_url: "http://127.0.0.1:8000" }, { proxy: "http://file:3" }, both, null],
    [
      "an own one on loopback",
      { base_url: "http://[::1]:8000", proxy: "http://own:4" },
      {},
      {},
      "http://own:4",
    ],
    ["an own one, whatever NO_PROXY", { proxy: "http://own:4" }, {}, { NO_PROXY: "*" }, "http://own:4"],
  ]
  const exempt: [entry: string, base_url: string, is_exempt: boolean][] = [
    ["*", "https://api.test", true],
    ["api.test", "https://api.test", true],
    ["test", "https://api.test", true],
    [".test", "https://api.test", true],
    ["*.test", "https://api.test", true],
    ["pi.test", "https://api.test", false],
    ["other, API.test", "https://api.test", true],
    ["api.test:443", "https://api.test", true],
    ["api.test:444", "https://api.test", false],
    ["10.0.0.0/8", "https://10.1.2.3", true],
    ["10.0.0.0/8", "https://11.1.2.3", false],
    ["10.0.0.0/8", "https://10.test", false],
    ["10.0.0.0/99", "https://10.1.2.3", false],
    ["10.1.2.3", "https://10.1.2.3:8443", true],
    ["fd00::/8", "https://[fd00::1]", true],
    ["fd00::1", "https://[fd00::1]", true],
    ["[fd00::1]:443", "https://[fd00::1]", true],
  ]
  const of_no_proxy = exempt.map(([no_proxy, base_url, is_exempt]): (typeof rows)[number] => [
    `NO_PROXY=${no_proxy} for ${base_url}`,
    { base_url },
    { proxy: "http://file:3" },
    { NO_PROXY: no_proxy },
    is_exempt ? null : "http://file:3",
  ])

  test.each([...rows, ...of_no_proxy])("%s", (_what, keys, file, env, proxy) => {
    const place = read(keys, file, env)
    expect(place?.proxy ?? null).toBe(proxy)
    expect(place?.transport).toBe(proxy === null ? "direct" : "fetch")
  })

  test("its password is a secret of the upstream, also decoded", () => {
    const place = read({ proxy: `http://${USER_INFO}@own:4` })
    expect(place?.secrets).toContain(PASSWORD)
    expect(place?.secrets).toContain(encodeURIComponent(PASSWORD))
  })

  test("what is no proxy is refused without being shown", () => {
    const wrong: [keys: object, env: Record<string, string>, path: string][] = [
      [{ proxy: "socks5://canary:1" }, {}, "upstreams.openai.proxy"],
      [{ proxy: "http://own:4/path-canary" }, {}, "upstreams.openai.proxy"],
      [{ proxy: "http://own:4", transport: "direct" }, {}, "upstreams.openai.transport"],
      [{}, { HTTPS_PROXY: "socks5://canary:1" }, "HTTPS_PROXY"],
    ]
    for (const [keys, env, path] of wrong) {
      const words = String(thrownBy(() => read(keys, {}, env)))
      expect(words).toContain(path)
      expect(words).not.toContain("canary")
    }
  })
})

function thrownBy(action: () => unknown): unknown {
  try {
    action()
  } catch (error) {
    return error
  }
  throw new Error("it was accepted")
}

import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { connect, createServer } from "node:net"
import type { Upstream } from "../../src/config/config.ts"
import { CircuitBreakers } from "../../src/upstream/circuit-breakers.ts"
import type { Attempts } from "../../src/upstream/forward.ts"
import { takes, within } from "../support/fair-clock.ts"
import { answers, failure, newProviders, opened, routes, second, send, textOf, upstream } from "./calling.ts"
import { Listeners } from "./listeners.ts"

const CONNECT_MS = 300
/** Besides `connect`, for the call itself, on a machine that does other things. */
const MARGIN_MS = 100

newProviders()
const listeners = new Listeners()
const processes: Bun.Subprocess[] = []
beforeEach(() => second.reply(answers))
afterEach(() => {
  listeners.close()
  for (const process of processes.splice(0)) process.kill("SIGKILL")
})

/** The port of a listener whose accept queue is full: the kernel drops what else asks for a connection. */
async function fullQueue(): Promise<number> {
  const child = Bun.spawn([process.execPath, `${import.meta.dir}/full-listener.ts`], { stdout: "pipe" })
  processes.push(child)
  const { value } = await child.stdout.getReader().read()
  const port = Number(new TextDecoder().decode(value))
  for (let full = false; !full; ) {
    const socket = connect(port, "127.0.0.1").on("error", () => {})
    listeners.add(socket)
    const connected = new Promise((resolve) => socket.once("connect", resolve))
    full = !(await within(200, connected))
  }
  return port
}

const silentTls = () => listeners.listen(createServer())

const place = (base_url: string, overrides: Partial<Upstream> = {}) =>
  upstream(base_url, {
    timeouts: { connect_ms: CONNECT_MS, first_byte_ms: 60_000, idle_ms: 60_000, total_ms: 60_000 },
    ...overrides,
  })

describe("D31 an upstream that cannot be connected to costs no more than `connect`", () => {
  const dead: [name: string, url: () => Promise<string>][] = [
    ["a full accept queue", async () => `http://127.0.0.1:${await fullQueue()}`],
    ["a silent TLS port", async () => `https://127.0.0.1:${await silentTls()}`],
  ]
  test.each(dead.flatMap(([name, url]) => [true, false].map((stream) => [name, stream, url] as const)))(
    "%s, stream %p: the second upstream answers",
    async (_name, stream, url) => {
      const seen: (string | null)[] = []
      const attempts: Attempts = { attempted: (_upstream, _outcome, _ms, fault) => void seen.push(fault) }
      const both = routes(place(await url()), upstream(second.url, { name: "second" }))
      const call = send(both, { stream }, new CircuitBreakers(), attempts)
      const reply = await takes(0, CONNECT_MS + MARGIN_MS, call)
      expect(reply.route.upstream.name).toBe("second")
      expect(seen).toEqual(["unreachable (CONNECT_TIMEOUT)", null])
      await textOf(reply.body)
    },
  )

  test("alone, it is a 503", async () => {
    const call = send(routes(place(await silent())))
    expect((await failure(call)).code).toBe("upstream_unavailable")
  })

  const silent = async () => `https://127.0.0.1:${await silentTls()}`
})

describe("D59 the addresses of a name", () => {
  const open = (port: number, addresses: readonly string[], asked?: string[]) =>
    opened({ hostname: "provider.test", port, tls: null }, addresses, asked)

  test("one that refuses: the next is tried at once", async () => {
    const port = await listeners.listen(createServer())
    expect(await takes(0, 200, open(port, ["127.0.0.9", "127.0.0.1"]))).toBe("127.0.0.1")
  })

  test("one that does not answer: the next is tried after 250 ms, and wins", async () => {
    const port = await fullQueue()
    const other = createServer()
    await listeners.listen(other, port, "127.0.0.2")
    expect(await takes(240, 250 + MARGIN_MS, open(port, ["127.0.0.1", "127.0.0.2"]))).toBe("127.0.0.2")
  })

  test("all refuse, or there is none", async () => {
    const port = await listeners.listen(createServer())
    expect(await open(port, ["127.0.0.8", "127.0.0.9"])).toMatchObject({ code: "ECONNREFUSED" })
    expect(await open(port, [])).toMatchObject({ code: "ENOTFOUND" })
  })

  test("the name is looked up for each connection", async () => {
    const port = await listeners.listen(createServer())
    const asked: string[] = []
    for (let times = 0; times < 2; times++) await open(port, ["127.0.0.1"], asked)
    expect(asked).toEqual(["provider.test", "provider.test"])
  })
})

import { afterAll, afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { connect, createServer, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createServer as createTlsServer, type TLSSocket, type TlsOptions } from "node:tls"
import type { Upstream } from "../../src/config/config.ts"
import { postByFetch } from "../../src/upstream/http/fetch.ts"
import { codeOf } from "../../src/upstream/http/transport.ts"
import { load, upstream as written } from "../config/small.ts"
import { thrown } from "../support/thrown.ts"
import { describeBoth, failure, opened, routes, send, textOf, upstream } from "./calling.ts"
import { certificates, type Pair } from "./certificates.ts"
import { Listeners } from "./listeners.ts"

const listeners = new Listeners()
const folder = mkdtempSync(join(tmpdir(), "tls-"))
const made = await certificates()
const trusted = { ca: made.ca.cert, cert: null, key: null }
afterEach(() => listeners.close())
afterAll(() => rmSync(folder, { recursive: true }))

const WHOLE = 'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"ok":true}'
const IN_CHUNKS = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nb\r\n{"ok":true}\r\n'

/** What a server saw of a client. */
interface Seen {
  readonly name: unknown
  readonly protocol: unknown
  readonly version: unknown
  readonly client: unknown
}

/** A provider that speaks TLS and answers all requests with `answer`. */
async function secured(options: TlsOptions = made.server, answer = WHOLE) {
  const seen: Seen[] = []
  const server = createTlsServer({ ALPNProtocols: ["http/1.1"], ...options }, (socket: TLSSocket) => {
    seen.push({
      name: Reflect.get(socket, "servername"),
      protocol: socket.alpnProtocol,
      version: socket.getProtocol(),
      client: socket.getPeerCertificate()?.subject?.CN,
    })
    socket.on("error", () => {})
    socket.on("data", () => void socket.write(answer))
  })
  return { port: await listeners.listen(server), seen }
}

const call = (place: Upstream) => send(routes(place))
const ask = async (base_url: string, tls: Upstream["tls"] = trusted) =>
  await textOf((await call(upstream(base_url, { tls }))).body)

describeBoth("D59 TLS", () => {
  test("an authority of its own; the name is sent, HTTP/1.1 is agreed on", async () => {
    const { port, seen } = await secured()
    expect(await ask(`https://localhost:${port}`)).toBe('{"ok":true}')
    expect(seen).toMatchObject([{ name: "localhost", protocol: "http/1.1" }])
  })

  test("an address is not sent as a name (RFC 6066), and is compared with the certificate", async () => {
    const { port, seen } = await secured()
    expect(await ask(`https://127.0.0.1:${port}`)).toBe('{"ok":true}')
    expect(seen).toMatchObject([{ name: false, protocol: "http/1.1" }])
  })

  test("a certificate that is for another address, or that nobody vouches for, is refused", async () => {
    const { port } = await secured()
    const other = await certificates("127.0.0.7")
    const rows: Upstream["tls"][] = [null, { ...trusted, ca: other.ca.cert }]
    for (const tls of rows) {
      const error = await failure(call(upstream(`https://127.0.0.1:${port}`, { tls })))
      expect(error.code).toBe("upstream_unavailable")
    }
  })

  test.each(["TLSv1.2", "TLSv1.3"] as const)("by %s alone", async (version) => {
    const { port, seen } = await secured({ ...made.server, minVersion: version, maxVersion: version })
    expect(await ask(`https://localhost:${port}`)).toBe('{"ok":true}')
    expect(seen).toMatchObject([{ version }])
  })
})

describeBoth("D81 the gateway's own certificate", (transport) => {
  test("is sent where the provider wants one, as the file says it", async () => {
    const { port, seen } = await secured({
      ...made.server,
      ca: made.ca.cert,
      requestCert: true,
      rejectUnauthorized: true,
    })
    const read = (tls: object) => {
      const [place] = load(written({ base_url: `https://localhost:${port}`, transport, tls })).upstreams
      if (place === undefined) throw new Error("no upstream")
      return place
    }
    const ca = made.ca.cert
    expect(await textOf((await call(read({ ca, ...made.client }))).body)).toBe('{"ok":true}')
    expect(seen).toMatchObject([{ client: "gateway" }])
    await failure(call(read({ ca })))
  })
})

/** The address of a proxy whose tunnels all end at this port. */
async function tunnelTo(port: number): Promise<string> {
  const proxy = createServer((client) => {
    client.once("data", () => {
      const beyond = connect(port, "127.0.0.1", () => {
        client.write("HTTP/1.1 200 Connection established\r\n\r\n")
        client.pipe(beyond).pipe(client)
      })
      listeners.add(beyond.on("error", () => client.destroy()))
    })
  })
  return `http://127.0.0.1:${await listeners.listen(proxy)}`
}

describe("D59 a certificate is refused that is not for the name or has expired", () => {
  const MISMATCH = "ERR_TLS_CERT_ALTNAME_INVALID"
  const rows: [what: string, shown: () => Pair, hostname: string, code: string | null][] = [
    ["for the name", () => made.server, "localhost", null],
    ["for another name", () => made.server, "api.provider.test", MISMATCH],
    ["for all names below", () => made.wildcard, "api.provider.test", null],
    ["for all names below, but not the name itself", () => made.wildcard, "provider.test", MISMATCH],
    ["for all names below, but not two below", () => made.wildcard, "eu.api.provider.test", MISMATCH],
    ["for all names below another", () => made.wildcard, "api.other.test", MISMATCH],
    ["until yesterday", () => made.expired, "localhost", "CERT_HAS_EXPIRED"],
  ]
  test.each(rows)("%s (direct)", async (_what, shown, hostname, code) => {
    const { port } = await secured(shown())
    const end = await opened({ hostname, port, tls: trusted }, ["127.0.0.1"])
    expect(typeof end === "string" ? null : end.code).toBe(code)
  })

  test.each(rows)("%s (fetch, in a tunnel)", async (_what, shown, hostname, code) => {
    const { port } = await secured(shown())
    const place = upstream(`https://${hostname}:${port}`, { proxy: await tunnelTo(port), tls: trusted })
    const exchange = postByFetch(place, "/x", "m", {}, ["{}"])
    const status = exchange.head.then((head) => head.status, codeOf)
    expect(await status).toBe(code ?? 200)
    exchange.cancel()
  })
})

describe("D59 authorities that the environment names", () => {
  const REFUSED = "UNABLE_TO_VERIFY_LEAF_SIGNATURE"
  const rows: [variable: string | null, replaced: boolean, direct: unknown, fetch: unknown][] = [
    [null, false, REFUSED, REFUSED],
    ["NODE_EXTRA_CA_CERTS", false, 200, 200],
    ["SSL_CERT_FILE", false, 200, 200],
    ["NODE_EXTRA_CA_CERTS", true, REFUSED, REFUSED],
  ]
  test.each(rows)("%p, replaced by tls.ca: %p", async (variable, replaced, direct, fetch) => {
    const { port } = await secured()
    const file = join(folder, "ca.pem")
    await Bun.write(file, made.ca.cert)
    const { NODE_EXTRA_CA_CERTS: _, SSL_CERT_FILE: __, ...env } = process.env
    const ca = replaced ? made.expired.cert : null
    const child = Bun.spawn([process.execPath, `${import.meta.dir}/asking.ts`], {
      env: { ...env, ...(variable !== null && { [variable]: file }) },
      stdin: Buffer.from(JSON.stringify({ base_url: `https://localhost:${port}`, ca })),
      stdout: "pipe",
      stderr: "inherit",
    })
    expect(await new Response(child.stdout).json()).toEqual({ direct, fetch })
  })
})

describeBoth("D59 a connection that ends without the close_notify of TLS", () => {
  let cut: () => Promise<void>
  let connections: number
  /** A provider whose TCP connections `cut` ends under their TLS. */
  const cuttable = async (answer: string) => {
    const { port } = await secured(made.server, answer)
    const clients: Socket[] = []
    connections = 0
    const relay = createServer({ allowHalfOpen: true }, (client) => {
      connections += 1
      clients.push(client)
      const beyond = connect(port, "127.0.0.1")
      listeners.add(beyond.on("error", () => {}))
      client.on("data", (bytes) => beyond.write(bytes))
      beyond.on("data", (bytes) => client.write(bytes))
    })
    cut = async () => {
      const ended = clients.splice(0).map((client) => {
        client.end()
        return new Promise((resolve) => client.once("end", resolve).once("close", resolve))
      })
      await Promise.all(ended)
    }
    return `https://localhost:${await listeners.listen(relay)}`
  }

  test.each([
    ["of known length", WHOLE],
    ["in chunks", `${IN_CHUNKS}0\r\n\r\n`],
  ])("after a whole body %s: nothing is missing, and the next call gets a new one", async (_what, answer) => {
    const base_url = await cuttable(answer)
    for (let calls = 1; calls <= 2; calls++) {
      expect(await ask(base_url)).toBe('{"ok":true}')
      await cut()
      expect(connections).toBe(calls)
    }
  })

  test("in a body: it is an error", async () => {
    const base_url = await cuttable(IN_CHUNKS)
    const { body } = await call(upstream(base_url, { tls: trusted }))
    expect(Buffer.from((await body.read()) ?? []).toString()).toBe('{"ok":true}')
    const end = thrown((async () => await body.read())())
    await cut()
    expect(await end).toMatchObject({ code: "ECONNRESET" })
  })
})

describe("D59 an idle connection with TLS", () => {
  beforeEach(() => {
    const real = performance.now.bind(performance)
    clock = spyOn(performance, "now").mockImplementation(() => real() + later_ms)
  })
  afterEach(() => clock.mockRestore())
  let clock: { mockRestore(): void }
  let later_ms = 0

  test("is kept for 30 s where neither says a time", async () => {
    const { port, seen } = await secured()
    const rows = [
      [0, 1],
      [29_000, 1],
      [31_000, 2],
    ] as const
    for (const [idle_ms, connections] of rows) {
      later_ms += idle_ms
      expect(await ask(`https://localhost:${port}`)).toBe('{"ok":true}')
      // The connection is free once the event loop has read what came behind the answer.
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
      expect(seen).toHaveLength(connections)
    }
  })
})

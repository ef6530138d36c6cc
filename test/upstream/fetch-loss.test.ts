import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import type { Socket } from "bun"
import { postDirectly } from "../../src/upstream/http/direct.ts"
import { postByFetch } from "../../src/upstream/http/fetch.ts"
import type { Post } from "../../src/upstream/http/transport.ts"
import { upstream } from "./calling.ts"

const HEAD = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
const FIRST = "6\r\nfirst \r\n"
const LAST = "4\r\nlast\r\n"
/** `ESTABLISHED` and `CLOSE_WAIT`. */
const OPEN = new Set(["01", "08"])
/** From the end of the connection in the kernel until the runtime's own thread has told of it. */
const BUSY_MS = 30

/** How a provider breaks off after its last bytes. */
const endings: [name: string, end: (socket: Socket<undefined>) => void][] = [
  ["FIN", (socket) => void socket.end()],
  ["RST", (socket) => void socket.terminate()],
]

/** True while the connection from this port of the loopback is open at its own end, as the kernel sees it. */
function isOpen(port: number): boolean {
  const from = `: 0100007F:${port.toString(16).toUpperCase().padStart(4, "0")} `
  const rows = readFileSync("/proc/net/tcp", "utf8").split("\n")
  return rows.some((row) => row.includes(from) && OPEN.has(row.split(/ +/)[4] ?? ""))
}

/** What the reader gets of an answer that breaks off while the event loop is busy: the whole, or once it has the first part. */
async function cameOf(post: Post, end: (socket: Socket<undefined>) => void, is_split: boolean) {
  const asked = Promise.withResolvers<Socket<undefined>>()
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: asked.resolve } })
  const exchange = post(upstream(`http://127.0.0.1:${server.port}`), "/x", "m", {}, ["{}"])
  const provider = await asked.promise
  const breakOff = (bytes: string) => {
    const { remotePort } = provider
    provider.write(bytes)
    end(provider)
    // Its thread reads all that came, and closes.
    while (post === postByFetch && isOpen(remotePort)) Bun.sleepSync(1)
    Bun.sleepSync(BUSY_MS)
  }
  let text = ""
  try {
    if (is_split) provider.write(HEAD + FIRST)
    else breakOff(HEAD + FIRST + LAST)
    await exchange.head
    for (let part = await exchange.read(); part !== null; part = await exchange.read()) {
      text += Buffer.from(part)
      if (text === "first ") breakOff(LAST)
    }
  } catch {
    return text
  } finally {
    server.stop(true)
  }
  throw new Error("the break was not noticed")
}

/**
 * Why the gateway has a client of its own (D59). If the second test fails after an upgrade of the runtime, its `fetch` no
 * longer loses bytes: decide again whether `fetch` becomes the default and `direct` goes.
 */
describe.each(endings)("D59 an answer that breaks off with a %s", (_name, end) => {
  test("direct tells all that came", async () => {
    expect(await cameOf(postDirectly, end, false)).toBe("first last")
    expect(await cameOf(postDirectly, end, true)).toBe("first last")
  })

  test("fetch loses what the event loop has not read", async () => {
    expect(await cameOf(postByFetch, end, false)).toBe("")
    expect(await cameOf(postByFetch, end, true)).toBe("first ")
  })
})

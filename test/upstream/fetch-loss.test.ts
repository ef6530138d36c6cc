import { describe, expect, test } from "bun:test"
import type { Socket } from "bun"
import { postDirectly } from "../../src/upstream/http/direct.ts"
import { postByFetch } from "../../src/upstream/http/fetch.ts"
import type { Post } from "../../src/upstream/http/transport.ts"
import { upstream } from "./calling.ts"

const HEAD = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
const FIRST = "6\r\nfirst \r\n"
const LAST = "4\r\nlast\r\n"
/** Long enough for the runtime's own thread to read what came, and that the connection broke. */
const BUSY_MS = 30

/** How a provider breaks off after its last bytes. */
const endings: [name: string, end: (socket: Socket<undefined>) => void][] = [
  ["FIN", (socket) => void socket.end()],
  ["RST", (socket) => void socket.terminate()],
]

/** What the reader gets of an answer that breaks off while the event loop is busy. */
async function cameOf(post: Post, end: (socket: Socket<undefined>) => void, is_split: boolean) {
  const breakOff = (socket: Socket<undefined>, bytes: string) => {
    socket.write(bytes)
    end(socket)
    Bun.sleepSync(BUSY_MS)
  }
  const server = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data(socket) {
        if (!is_split) return breakOff(socket, HEAD + FIRST + LAST)
        socket.write(HEAD + FIRST)
        setTimeout(() => breakOff(socket, LAST), 20)
      },
    },
  })
  const exchange = post(upstream(`http://127.0.0.1:${server.port}`), "/x", "m", {}, ["{}"])
  let text = ""
  try {
    await exchange.head
    for (let part = await exchange.read(); part !== null; part = await exchange.read())
      text += Buffer.from(part)
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

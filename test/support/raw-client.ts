import { connect } from "node:net"
import { CHAT } from "./gateway.ts"

/** A client made of a raw socket: it sends what it likes, reads when it likes and leaves as it likes. */
export interface RawClient {
  send(data: string): void
  /** Everything received so far. */
  readonly received: string
  readonly received_bytes: number
  /** Resolves with everything received as soon as `mark` is in it, from `from` on; rejects when the connection ends before. */
  receives(mark: string, from?: number): Promise<string>
  /** Takes nothing more off the wire: the kernel's buffers fill up. */
  stopReading(): void
  readOn(): void
  /** Says that nothing more will be sent, and goes on reading. */
  halfClose(): void
  /** Goes in good order (FIN); `performance.now()`. */
  leave(): number
  /** Goes as a killed process does that had something left to read (RST); `performance.now()`. */
  reset(): number
  /** `performance.now()` when the connection was over, whoever ended it. */
  readonly closed: Promise<number>
}

export async function rawClient({ url }: { readonly url: string }): Promise<RawClient> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  const closed = Promise.withResolvers<number>()
  const waiting = new Set<() => void>()
  const pieces: Buffer[] = []
  let received_bytes = 0
  let over = false
  const end = () => {
    over = true
    closed.resolve(performance.now())
    for (const look of waiting) look()
  }
  socket.on("data", (bytes) => {
    pieces.push(bytes)
    received_bytes += bytes.length
    for (const look of waiting) look()
  })
  socket.on("end", () => {
    socket.end()
    end()
  })
  socket.on("error", end)
  socket.on("close", end)
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve)
    socket.once("error", reject)
  })
  const received = () => Buffer.concat(pieces).toString()

  return {
    send: (data) => void socket.write(data),
    get received() {
      return received()
    },
    get received_bytes() {
      return received_bytes
    },
    receives(mark, from = 0) {
      return new Promise((resolve, reject) => {
        const look = () => {
          const text = received()
          if (!text.includes(mark, from) && !over) return
          waiting.delete(look)
          if (text.includes(mark, from)) resolve(text)
          else
            reject(
              new Error(`the connection ended without ${JSON.stringify(mark)} in ${JSON.stringify(text)}`),
            )
        }
        waiting.add(look)
        look()
      })
    },
    stopReading: () => void socket.pause(),
    readOn: () => void socket.resume(),
    halfClose: () => void socket.end(),
    leave() {
      socket.destroy()
      return performance.now()
    },
    reset() {
      socket.resetAndDestroy()
      return performance.now()
    },
    closed: closed.promise,
  }
}

/** The text of a chat completion request. */
export function chatRequest(key: string, body: object = {}, headers: readonly string[] = []): string {
  const text = JSON.stringify({ model: CHAT, messages: [{ role: "user", content: "hello" }], ...body })
  return [
    "POST /v1/chat/completions HTTP/1.1",
    "host: gateway.test",
    `authorization: Bearer ${key}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(text)}`,
    ...headers,
    "",
    text,
  ].join("\r\n")
}

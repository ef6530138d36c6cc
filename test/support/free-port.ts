import { connect } from "node:net"

/** Below the ports that Linux gives to those who ask for any: another test cannot get it before a program listens there. */
const FIRST = 20_000
const COUNT = 12_768

/** A port of the loopback on which nobody listens now. */
export function freePort(): number {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * COUNT)
    try {
      Bun.listen({ hostname: "127.0.0.1", port, socket: { data() {} } }).stop(true)
      return port
    } catch {
      // Another program listens there.
    }
  }
}

export function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1")
    socket.once("connect", () => resolve(true))
    socket.once("error", () => resolve(false))
    socket.once("connect", () => socket.destroy())
  })
}

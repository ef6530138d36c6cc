import { connect } from "node:net"

/** Below the ports that Linux gives to those who ask for any: nobody gets one of these between the answer and its use. */
const FIRST = 20_000
const COUNT = 12_000

/** A port of the loopback on which nobody listens now. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * COUNT)
    if (!(await listens(port))) return port
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

import { once } from "node:events"
import type { AddressInfo, Server, Socket } from "node:net"

/** Servers of a test on the loopback, with their connections. */
export class Listeners {
  readonly #servers: Server[] = []
  readonly #sockets = new Set<Socket>()

  /** Its port. */
  async listen(server: Server, port = 0, host = "127.0.0.1"): Promise<number> {
    this.#servers.push(server)
    server.on("connection", (socket) => this.add(socket.on("error", () => {})))
    await once(server.listen(port, host), "listening")
    return (server.address() as AddressInfo).port
  }

  /** Ends this connection with the others. */
  add(socket: Socket): void {
    this.#sockets.add(socket)
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#sockets.clear()
    for (const server of this.#servers.splice(0)) server.close()
  }
}

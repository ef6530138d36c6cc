import { Link, type Listener } from "../support/link.ts"

/** The way of one client to the gateway, on which its requests are counted: what is refused at the door leaves no other trace. */
export class Door extends Link {
  /** `performance.now()` when each request began to pass. */
  readonly requests_ms: number[] = []

  static async before(gateway: { readonly url: string }): Promise<Door> {
    const { hostname, port } = new URL(gateway.url)
    const door = new Door({ host: hostname, port: Number(port) })
    await door.listen()
    return door
  }

  protected override listener(): Listener {
    return { asked: (bytes) => this.#count(bytes), answered: () => null }
  }

  #count(bytes: Buffer): null {
    const lines = bytes.toString("latin1").split(" HTTP/1.1\r\n").length - 1
    for (let line = 0; line < lines; line++) this.requests_ms.push(performance.now())
    return null
  }
}

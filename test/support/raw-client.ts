import { connect } from "node:net"
import { type Answer, parseAnswer } from "./answer.ts"

/** A client made of a raw socket: it sends what it likes, reads when it likes and leaves as it likes. */
export interface RawClient {
  /** What is sent before the connection stands is sent when it does. */
  send(data: string | Uint8Array): void
  /** Everything received so far. */
  readonly received: string
  readonly received_bytes: number
  /** Resolves with everything received as soon as `mark` is in it, from `from` on; rejects when the connection ends before. */
  receives(mark: string, from?: number): Promise<string>
  /** The next answer, once its framing has come to its own end; rejects when the connection is over before. */
  answer(method?: string): Promise<Answer>
  /** The next answer as far as it came, as soon as that is `enough`; rejects when the connection is over and it is not. */
  answered(enough: (answer: Answer, is_over: boolean) => boolean): Promise<Answer>
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
  /** Resolves with what was received and not taken as an answer, when the connection is over. */
  readonly over: Promise<string>
}

/** A client whose connection stands; rejects when nobody listens. */
export async function rawClient(gateway: { readonly url: string }): Promise<RawClient> {
  const { client, connected } = open(gateway)
  await connected
  return client
}

/** A client that may send at once. */
export function dial(gateway: { readonly url: string }): RawClient {
  const { client, connected } = open(gateway)
  connected.catch(() => {})
  return client
}

function open({ url }: { readonly url: string }): { client: RawClient; connected: Promise<void> } {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true, noDelay: true })
  const connected = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<number>()
  const over = Promise.withResolvers<string>()
  const waiting = new Set<() => void>()
  let pieces: Buffer[] = []
  let received_bytes = 0
  /** Bytes that were taken as answers. */
  let taken_bytes = 0
  let is_over = false

  const all = (): Buffer => {
    const [only, ...others] = pieces
    if (only === undefined) return Buffer.alloc(0)
    if (others.length > 0) pieces = [Buffer.concat(pieces)]
    return pieces[0] ?? only
  }
  const untaken = () => all().subarray(taken_bytes)
  const tell = () => {
    for (const look of waiting) look()
  }
  const end = () => {
    if (is_over) return
    is_over = true
    closed.resolve(performance.now())
    tell()
    over.resolve(untaken().toString("latin1"))
  }
  /** What `find` finds in what was received, as soon as it does. */
  function found<Thing>(find: () => Thing | null, missing: string): Promise<Thing> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const thing = find()
        if (thing === null && !is_over) return
        waiting.delete(look)
        if (thing !== null) resolve(thing)
        else reject(new Error(`the connection ended without ${missing} in ${JSON.stringify(`${all()}`)}`))
      }
      waiting.add(look)
      look()
    })
  }

  socket.once("connect", connected.resolve)
  socket.on("data", (bytes) => {
    pieces.push(bytes)
    received_bytes += bytes.length
    tell()
  })
  socket.on("end", () => {
    socket.end()
    end()
  })
  socket.on("error", (error) => {
    connected.reject(error)
    end()
  })
  socket.on("close", end)

  const client: RawClient = {
    send: (data) => void socket.write(data),
    get received() {
      return all().toString()
    },
    get received_bytes() {
      return received_bytes
    },
    receives: (mark, from = 0) =>
      found(() => {
        const text = all().toString()
        return text.includes(mark, from) ? text : null
      }, JSON.stringify(mark)),
    answer: (method) =>
      found(() => {
        const parsed = parseAnswer(untaken(), method)
        if (parsed === null || !parsed.answer.whole) return null
        taken_bytes += parsed.consumed
        return parsed.answer
      }, "a whole answer"),
    answered: (enough) =>
      found(() => {
        const answer = parseAnswer(untaken())?.answer
        return answer !== undefined && enough(answer, is_over) ? answer : null
      }, "as much of an answer"),
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
    over: over.promise,
  }
  return { client, connected: connected.promise }
}

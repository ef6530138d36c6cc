import type { Address, SocketAddress } from "../../src/ledger/database/address.ts"
import type { Statement } from "../../src/ledger/database/statement.ts"
import { Link, type Listener } from "./link.ts"

/** Where a statement is met: on its way to the database, or done there, with its reply on the way back. */
export type Place = "asked" | "done"

/** A statement, or its reply, that waits on the way; so does every other one like it until one of these is called. */
export interface Met {
  pass(): void
  /** It is lost, with its connection. */
  lose(): void
}

/** A statement, by its text or by what its text has in it. */
export type Wanted = Pick<Statement, "text"> | RegExp

interface Meeting {
  /** Null for any statement. */
  readonly wanted: Wanted | null
  readonly place: Place
  readonly met: PromiseWithResolvers<Met>
  /** What those wait for that were met. */
  readonly gate: PromiseWithResolvers<void>
}

/** The way to a Postgres. It knows where a message ends, so that a test can meet exactly one. */
export class DatabaseProxy extends Link {
  readonly #database: string
  readonly #user: string
  readonly #meetings = new Set<Meeting>()
  /** Statements that clients had executed, as the server saw them. */
  executed = 0

  private constructor({ socket_path, user, database }: SocketAddress) {
    super({ path: socket_path })
    this.#user = user
    this.#database = database
  }

  static async start(target: Address): Promise<DatabaseProxy> {
    if (!("socket_path" in target)) throw new Error("the test cluster is reached by its socket")
    const proxy = new DatabaseProxy(target)
    await proxy.listen()
    return proxy
  }

  get address(): { readonly url: string } {
    return { url: `postgres://${this.#user}@127.0.0.1:${this.port}/${this.#database}` }
  }

  /** Stops the next such statement there, and says so. */
  meet(wanted: Wanted, place: Place): Promise<Met> {
    return this.#meet(wanted, place)
  }

  /** Lets the next statement be done and committed, and ends its connection instead of passing the reply on. */
  async loseReply(wanted?: Wanted): Promise<void> {
    const { lose } = await this.#meet(wanted ?? null, "done")
    lose()
  }

  #meet(wanted: Wanted | null, place: Place): Promise<Met> {
    const meeting: Meeting = { wanted, place, met: Promise.withResolvers(), gate: Promise.withResolvers() }
    this.#meetings.add(meeting)
    return meeting.met.promise
  }

  /** A promise that waits for whoever wanted to meet this. */
  #stop(place: Place, text: string): Promise<void> | null {
    for (const meeting of this.#meetings) {
      if (meeting.place !== place || !isWanted(meeting.wanted, text)) continue
      const { met, gate } = meeting
      const end = (ending: () => void) => () => {
        this.#meetings.delete(meeting)
        ending()
      }
      met.resolve({
        pass: end(gate.resolve),
        lose: end(() => gate.reject(new Error("lost on the way"))),
      })
      return gate.promise
    }
    return null
  }

  protected override listener(): Listener {
    const questions = new Messages(true)
    const answers = new Messages(false)
    const texts = new Map<string, string>()
    let running: string | null = null
    let ready = false
    return {
      asked: (bytes) => {
        let gate: Promise<void> | null = null
        for (const { type, body } of questions.read(bytes)) {
          if (type === "E" || type === "Q") this.executed += 1
          if (type === "P") {
            const [name = "", text = ""] = stringsOf(body)
            texts.set(name, text)
          }
          if (type === "Q") running = stringsOf(body)[0] ?? ""
          if (type === "B") {
            running = texts.get(stringsOf(body)[1] ?? "") ?? ""
            gate ??= this.#stop("asked", running)
          }
        }
        return gate
      },
      answered: (bytes) => {
        const over = answers.read(bytes).some(({ type }) => type === "Z")
        const gate = over && ready ? this.#stop("done", running ?? "") : null
        ready ||= over
        return gate
      },
    }
  }
}

function isWanted(wanted: Wanted | null, text: string): boolean {
  if (wanted === null) return true
  return wanted instanceof RegExp ? wanted.test(text) : wanted.text === text
}

interface Message {
  readonly type: string
  readonly body: Buffer
}

class Messages {
  #rest = Buffer.alloc(0)
  #startup: boolean

  /** A client's first message has no type. */
  constructor(startup: boolean) {
    this.#startup = startup
  }

  read(bytes: Buffer): Message[] {
    this.#rest = Buffer.concat([this.#rest, bytes])
    const messages: Message[] = []
    for (;;) {
      const head = this.#startup ? 0 : 1
      if (this.#rest.length < head + 4) return messages
      const end = head + this.#rest.readInt32BE(head)
      if (this.#rest.length < end) return messages
      if (!this.#startup) {
        const type = String.fromCharCode(this.#rest.readUInt8(0))
        messages.push({ type, body: this.#rest.subarray(head + 4, end) })
      }
      this.#startup = false
      this.#rest = this.#rest.subarray(end)
    }
  }
}

/** The zero-terminated strings that a message begins with. */
function stringsOf(body: Buffer): string[] {
  return body.toString("utf8").split("\0")
}

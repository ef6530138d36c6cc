import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"

const Asked = Type.Object({ number: Type.Integer(), asked: Type.Unknown() })
const Answered = Type.Object({ number: Type.Integer(), answer: Type.String() })
const Failed = Type.Object({ number: Type.Integer(), failure: Type.String() })
const Message = Type.Union([Asked, Answered, Failed])

export interface LineOptions {
  /** Hands a message to the other process; may throw when that is gone. */
  send(message: Static<typeof Message>): void
  /** Answers what the other process asks; what it throws is told there. */
  answer(asked: unknown): Promise<string>
}

/** One end of the channel between the parent and a worker: each may ask the other, and is answered with a text. */
export class Line {
  readonly #options: LineOptions
  readonly #waiting = new Map<number, PromiseWithResolvers<string>>()
  #asked = 0
  #lost: Error | null = null

  constructor(options: LineOptions) {
    this.#options = options
  }

  /** Rejects with what the other process failed with, when the line is lost, and after `within_ms`, if that is given. */
  async ask(asked: object, within_ms?: number): Promise<string> {
    if (this.#lost !== null) throw this.#lost
    const number = ++this.#asked
    const waiting = Promise.withResolvers<string>()
    this.#waiting.set(number, waiting)
    const timer =
      within_ms === undefined
        ? undefined
        : setTimeout(() => waiting.reject(new Error("the other process does not respond")), within_ms)
    try {
      this.#options.send({ number, asked })
      return await waiting.promise
    } finally {
      clearTimeout(timer)
      this.#waiting.delete(number)
    }
  }

  /** Every message of the other process comes here. */
  take(message: unknown): void {
    const { number, ...said } = checked(Message, message)
    if ("asked" in said) void this.#reply(number, said.asked)
    else if ("answer" in said) this.#waiting.get(number)?.resolve(said.answer)
    else this.#waiting.get(number)?.reject(new Error(said.failure))
  }

  /** The other process is gone: nothing more will be answered. */
  lose(reason: Error): void {
    this.#lost = reason
    for (const waiting of this.#waiting.values()) waiting.reject(reason)
  }

  async #reply(number: number, asked: unknown): Promise<void> {
    const reply = await this.#options.answer(asked).then(
      (answer) => ({ number, answer }),
      (error: unknown) => ({ number, failure: error instanceof Error ? error.message : String(error) }),
    )
    if (this.#lost === null) this.#options.send(reply)
  }
}

/** What comes through the channel was written by this same code; anything else is a broken invariant. */
export function checked<S extends TSchema>(schema: S, value: unknown): Static<S> {
  if (Value.Check(schema, value)) return value
  throw new Error("a message between the processes of the gateway has a form that none of them sends")
}

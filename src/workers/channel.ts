import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import { Snapshot } from "../config/load.ts"
import { PushedMetrics } from "../config/pushed-metrics.ts"
import { Tracing } from "../config/tracing.ts"
import { nextTurn } from "../wire/shape.ts"

const Question = Type.Object({ number: Type.Integer(), question: Type.Unknown() })
/** `more`: the rest of a long answer follows. */
const Answer = Type.Object({ number: Type.Integer(), answer: Type.String(), more: Type.Boolean() })
const Failure = Type.Object({ number: Type.Integer(), failure: Type.String() })
const Message = Type.Union([Question, Answer, Failure])

/** Letters of an answer in one message, which is written and read in one turn of the event loop. */
const PART = 262_144

interface ChannelOptions {
  send(message: Static<typeof Message>): void
  /** Answers a question of the other process. An error is sent back to it. */
  answer(question: unknown): Promise<string>
}

export type Channel = ReturnType<typeof openChannel>

/** One end of the channel between the parent and a worker. Each may ask the other, and gets a text as the answer. */
export function openChannel({ send, answer }: ChannelOptions) {
  const waiting = new Map<number, PromiseWithResolvers<string> & { text: string }>()
  let last_number = 0
  let lost: Error | null = null

  function reply(message: Static<typeof Message>): void {
    if (lost === null) send(message)
  }

  async function answerTo(number: number, question: unknown): Promise<void> {
    try {
      const text = await answer(question)
      for (let at = 0; at === 0 || at < text.length; at += PART) {
        if (at > 0) await nextTurn()
        reply({ number, answer: text.slice(at, at + PART), more: at + PART < text.length })
      }
    } catch (error) {
      reply({ number, failure: error instanceof Error ? error.message : String(error) })
    }
  }

  return {
    /** Rejects with the error of the other process, when the channel is lost, and after `within_ms` if that is given. */
    async ask(question: object, within_ms?: number): Promise<string> {
      if (lost !== null) throw lost
      const number = ++last_number
      const asked = { ...Promise.withResolvers<string>(), text: "" }
      waiting.set(number, asked)
      const late = () => asked.reject(new Error("the other process does not respond"))
      const timer = within_ms === undefined ? undefined : setTimeout(late, within_ms)
      try {
        send({ number, question })
        return await asked.promise
      } finally {
        clearTimeout(timer)
        waiting.delete(number)
      }
    },
    receive(message: unknown): void {
      const { number, ...content } = checked(Message, message)
      const asked = waiting.get(number)
      if ("question" in content) void answerTo(number, content.question)
      else if ("failure" in content) asked?.reject(new Error(content.failure))
      else if (asked !== undefined) {
        asked.text += content.answer
        if (!content.more) asked.resolve(asked.text)
      }
    },
    /** The other process has exited: every question, open or to come, is rejected with `reason`. */
    disconnect(reason: Error): void {
      lost = reason
      for (const asked of waiting.values()) asked.reject(reason)
    },
  }
}

/** Both ends run the same code, so a message of another form is a broken invariant. */
export function checked<S extends TSchema>(schema: S, value: unknown): Static<S> {
  if (Value.Check(schema, value)) return value
  throw new Error("a message between the processes of the gateway has an unknown form")
}

/** Everything that a worker needs to start. Workers read no files and no variables, so all have the same values. */
export const Assignment = Type.Object({
  /** From 1 on. A replacement gets the number of the worker it replaces. */
  number: Type.Integer(),
  host: Type.String(),
  port: Type.Integer(),
  admin: Type.Union([Type.Object({ host: Type.String(), port: Type.Integer() }), Type.Null()]),
  shards: Type.Array(
    Type.Object({
      name: Type.String(),
      open: Type.Boolean(),
      address: Type.Union([
        Type.Object({ url: Type.String(), schema: Type.Optional(Type.String()) }),
        Type.Object({ socket_path: Type.String(), user: Type.String(), database: Type.String() }),
      ]),
    }),
  ),
  data_dir: Type.String(),
  admin_token: Type.Union([Type.String(), Type.Null()]),
  log_level: Type.String(),
  tracing: Type.Union([Tracing, Type.Null()]),
  pushed_metrics: Type.Union([PushedMetrics, Type.Null()]),
  snapshot: Snapshot,
})
export type Assignment = Static<typeof Assignment>

/** The parent asks it of a worker; a worker asks the parent to ask it of all workers. */
export const WorkerQuestion = Type.Union([
  /** Answered in Prometheus' text format. */
  Type.Object({ what: Type.Literal("metrics") }),
  /** Answered with the upstreams' statuses, in JSON. */
  Type.Object({ what: Type.Literal("upstreams") }),
])
export type WorkerQuestion = Static<typeof WorkerQuestion>

export const Command = Type.Union([
  /** Answered when the worker listens, or with the sentence that says why it cannot. */
  Type.Object({ what: Type.Literal("begin"), assignment: Assignment }),
  Type.Object({ what: Type.Literal("reload"), snapshot: Snapshot }),
  WorkerQuestion,
  /** Like a first and a second signal (D34). */
  Type.Object({ what: Type.Literal("drain") }),
  Type.Object({ what: Type.Literal("stop") }),
])
export type Command = Static<typeof Command>

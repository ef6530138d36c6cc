import { type Static, type TSchema, Type } from "@sinclair/typebox"
import type { Subprocess } from "bun"
import { checked } from "./checked.ts"

/** The roles of the benchmark's processes. Each does one thing, so that the work of one does not count as that of another. */
export const roles = ["provider", "bare", "tollgate", "load", "ledger"] as const
export type Role = (typeof roles)[number]

const Question = Type.Object({ number: Type.Integer(), asked: Type.Unknown() })
const Answer = Type.Object({
  number: Type.Integer(),
  answer: Type.Optional(Type.Unknown()),
  failure: Type.Optional(Type.String()),
})

/** How long a process may take to clean up after itself. */
const END_MS = 30_000

/** A process of this benchmark. It ends when told to, or when this process ends, and removes what it created. */
export class Child {
  readonly role: Role
  readonly #process: Subprocess
  readonly #pending = new Map<number, PromiseWithResolvers<unknown>>()
  #asked = 0
  #ended = false

  constructor(role: Role) {
    this.role = role
    this.#process = Bun.spawn([process.execPath, `${import.meta.dir}/main.ts`, role], {
      stdio: ["ignore", "inherit", "inherit"],
      // A process group of its own: Ctrl-C reaches this process only, which ends the others in their order.
      detached: true,
      ipc: (message) => this.#take(checked(Answer, message)),
      onExit: (_process, code) => this.#lose(code),
    })
  }

  get pid(): number {
    return this.#process.pid
  }

  /** Sends a question and checks the answer. Rejects with the failure of the process, or after `within_ms`. */
  async ask<S extends TSchema>(schema: S, asked: object, within_ms = 60_000): Promise<Static<S>> {
    if (this.#ended) throw new Error(`the ${this.role} process has ended`)
    const number = ++this.#asked
    const pending = Promise.withResolvers<unknown>()
    this.#pending.set(number, pending)
    const timer = setTimeout(
      () => pending.reject(new Error(`the ${this.role} process does not answer`)),
      within_ms,
    )
    try {
      this.#process.send({ number, asked })
      return checked(schema, await pending.promise)
    } finally {
      clearTimeout(timer)
      this.#pending.delete(number)
    }
  }

  /** Ends it, with SIGKILL if it does not end in time. */
  async stop(): Promise<void> {
    if (this.#ended) return
    this.#process.disconnect()
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), END_MS)
    await this.#process.exited
    clearTimeout(timer)
  }

  #take({ number, answer, failure }: Static<typeof Answer>): void {
    const pending = this.#pending.get(number)
    if (failure === undefined) pending?.resolve(answer)
    else pending?.reject(new Error(`${this.role}: ${failure}`))
  }

  #lose(code: number | null): void {
    this.#ended = true
    for (const { reject } of this.#pending.values()) {
      reject(new Error(`the ${this.role} process ended with ${code ?? "a signal"}`))
    }
  }
}

export interface Handler {
  /** Answers a question of the parent. What it throws rejects the parent's question. */
  answer(asked: unknown): Promise<object>
  /** Cleans up, when the parent says so or has ended. */
  end(): Promise<void>
}

/** Serves the parent of this process until the parent ends. */
export function serveParent(handler: Handler): void {
  process.on("message", (message: unknown) => {
    const { number, asked } = checked(Question, message)
    handler.answer(asked).then(
      (answer) => process.send?.({ number, answer }),
      (error: unknown) =>
        process.send?.({ number, failure: error instanceof Error ? error.message : String(error) }),
    )
  })
  let ending = false
  const end = () => {
    if (ending) return
    ending = true
    void handler.end().finally(() => process.exit(0))
  }
  process.on("disconnect", end)
  // If a signal ends this process first, the parent notices and ends the others.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, end)
}

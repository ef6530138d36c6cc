import { nextId } from "../id.ts"
import { type OneOrMore, oneOrMore } from "../wire/list.ts"
import type { Audit } from "./archive/audit.ts"
import type { Violation } from "./archive/violations.ts"
import { answerOf } from "./database/answer.ts"
import type { Db } from "./database/statement.ts"
import { type OfShard, UnknownShard } from "./entries.ts"
import { firstFound } from "./reports/merge.ts"

/** Questions of operators to the databases of the ledger (D74). */

export interface OperatedDatabase {
  readonly name: string
  /** True if accounts are created in it. */
  readonly open: boolean
  readonly database: Db
  /** For names of what a report has, which must not wait for connections that reports have. Absent: `database`. */
  readonly names?: Db
  /** Settlements without a hold. They are in a spool only, and the audit lists them (D13). */
  unheld?(): readonly Violation[] | Promise<readonly Violation[]>
  onAudit?(audit: Audit): void
  /** An end user was forgotten (D94). */
  onForgotten?(end_user_id: string): void
}

type Question<Args extends Arguments, Answer> = (database: Db, ...args: Args) => Promise<Answer>
type Arguments = readonly unknown[]

export interface Shard extends OperatedDatabase {
  /** Its name, if it is one of several: in errors, and in what it answers. */
  readonly label: OfShard
  ask<Args extends Arguments, Answer>(
    question: Question<Args, Answer>,
    within_ms?: number,
  ): (...args: Args) => Promise<Answer>
  /** Makes a resource. If the database does not answer in time, the error has its id. */
  make<Ordered extends { readonly id?: string | undefined }, Answer>(
    create: Question<[order: NoInfer<Ordered> & { readonly id: string }], Answer>,
    order: Ordered,
    within_ms?: number,
  ): Promise<Answer>
}

function shardOf(operated: OperatedDatabase, deadline_ms: number, is_one: boolean): Shard {
  const { name, database } = operated
  const label = is_one ? {} : { shard: name }
  return {
    ...operated,
    label,
    ask:
      (question, within_ms = deadline_ms) =>
      (...args) =>
        answerOf(question(database, ...args), within_ms, label),
    make(create, order, within_ms = deadline_ms) {
      const id = order.id ?? nextId()
      return answerOf(create(database, { ...order, id }), within_ms, { id, ...label })
    },
  }
}

/** Reads what has an id; null if it is not in this database. */
export type Read = Question<[id: string], object | null>

export interface Located<Answer> {
  readonly shard: Shard
  readonly answer: Answer
}

/** A month such as `2026-10`, of a shard; only one of several must be named. */
interface MonthOfShard {
  readonly month: string
  readonly shard?: string | undefined
}

/** Makers of methods. Each takes a question to one database, and its deadline if that is not `deadline_ms`. */
export function shardQuestions(databases: OneOrMore<OperatedDatabase>, deadline_ms: number) {
  const is_one = databases.length === 1
  const shards = databases.map((each) => shardOf(each, deadline_ms, is_one))
  const names = shards.map(({ name }) => name)
  const [home] = oneOrMore(shards)

  const all =
    <Args extends Arguments, Answer>(question: Question<Args, Answer>, within_ms?: number) =>
    (...args: Args) =>
      Promise.all(shards.map(({ ask }) => ask(question, within_ms)(...args)))

  /** The answer of the one shard that has it. Rejects if no shard has it and one did not answer. */
  const first =
    <Args extends Arguments, Answer>(question: Question<Args, Answer | null>, within_ms?: number) =>
    (...args: Args) =>
      firstFound(
        shards.map(async (shard): Promise<Located<Answer> | null> => {
          const answer = await shard.ask(question, within_ms)(...args)
          return answer === null ? null : { shard, answer }
        }),
      )

  const found =
    <Args extends Arguments, Answer>(question: Question<Args, Answer | null>, within_ms?: number) =>
    async (...args: Args): Promise<Answer | null> =>
      (await first(question, within_ms)(...args))?.answer ?? null

  /** Asks the shard that has what the first argument names. Null if no shard has it. */
  const there =
    <Args extends Arguments, Answer>(
      read: Read,
      question: Question<[id: string, ...Args], Answer>,
      within_ms?: number,
    ) =>
    async (id: string, ...args: Args): Promise<Answer | null> => {
      const at = await first(read)(id)
      return at === null ? null : at.shard.ask(question, within_ms)(id, ...args)
    }

  /** The answers of all shards, added. That of a single one goes the same way, because adding also sorts and checks. */
  const added =
    <Args extends Arguments, Part, Whole>(
      add: (parts: readonly Part[]) => Whole | Promise<Whole>,
      question: Question<Args, Part>,
      within_ms?: number,
    ) =>
    async (...args: Args): Promise<Whole> =>
      add(await all(question, within_ms)(...args))

  const ofMonth =
    <Args extends Arguments, Answer>(
      question: Question<[month: string, ...Args], Answer>,
      within_ms?: number,
    ) =>
    async ({ month, shard = is_one ? home.name : undefined }: MonthOfShard, ...args: Args) => {
      const at = shards.find(({ name }) => name === shard)
      if (at === undefined) throw new UnknownShard(names)
      return at.ask(question, within_ms)(`${month}-01`, ...args)
    }

  return { shards, home, all, first, found, there, added, ofMonth }
}

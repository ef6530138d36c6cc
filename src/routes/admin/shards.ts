import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { GatewayError } from "../../errors.ts"
import { type Account, getAccount } from "../../ledger/accounts/accounts.ts"
import { getKey } from "../../ledger/accounts/keys.ts"
import { firstFound } from "../../ledger/shards.ts"
import { invalidField } from "../../wire/fault.ts"
import { ask } from "../ledger-deadline.ts"
import type { OperatedShard, Operators } from "./operators.ts"

/** How operators ask the shards of the ledger (D74). An error names the shard that did not answer, if there are several. */

type Question<Answer> = (database: PostgresJsDatabase, shard: OperatedShard) => Promise<Answer>

interface Asking {
  /** Default: that of a question that reads few entries. */
  readonly deadline_ms?: number
  /** What the error has, to look up a change that may have been applied. */
  readonly fields?: Record<string, string>
}

/** An answer, and the shard that gave it. */
export interface Found<Answer> {
  readonly shard: OperatedShard
  readonly answer: Answer
}

/** Asks one shard. Throws `ledger_unavailable` if it does not answer in time. */
export function askShard<Answer>(
  operators: Operators,
  shard: OperatedShard,
  question: Question<Answer>,
  { deadline_ms = operators.deadline_ms, fields }: Asking = {},
): Promise<Answer> {
  return ask({ deadline_ms, ...shardField(operators, shard) }, question(shard.database, shard), fields)
}

/** Asks all shards at once; throws `ledger_unavailable` if one does not answer in time. */
export function askAll<Answer>(
  operators: Operators,
  question: Question<Answer>,
  asking?: Asking,
): Promise<Answer[]> {
  return Promise.all(operators.shards.map((shard) => askShard(operators, shard, question, asking)))
}

/**
 * Asks all shards at once for what one of them has: the first answer that is not null, and null once all said so. Throws
 * `ledger_unavailable` if no shard has it and one did not answer.
 */
export function find<Answer>(
  operators: Operators,
  question: Question<Answer | null>,
): Promise<Found<Answer> | null> {
  return firstFound(
    operators.shards.map(async (shard) => {
      const answer = await askShard(operators, shard, question)
      return answer === null ? null : { shard, answer }
    }),
  )
}

/** The account, and the shard in which it is live: where its balance, keys and limits are. Throws 404 if there is none. */
export async function liveAccount(operators: Operators, id: string): Promise<Found<Account>> {
  const found = await find(operators, (database) => getAccount(database, id))
  if (found === null) throw noAccount()
  return found
}

/** The shard in which an account is live; not asked where there is one shard. Throws 404 if no shard has the account. */
export async function shardOfAccount(operators: Operators, id: string): Promise<OperatedShard> {
  const [first, ...others] = operators.shards
  return others.length === 0 ? first : (await liveAccount(operators, id)).shard
}

/**
 * Whose key it is. A shard that an account has left has calls of its keys, but not the keys. Not asked, and undefined, where
 * there is one shard; undefined too if no shard has the key.
 */
export async function accountOfKey(
  operators: Operators,
  key_id: string | undefined,
): Promise<string | undefined> {
  if (key_id === undefined || operators.shards.length === 1) return undefined
  const found = await find(operators, (database) => getKey(database, key_id))
  return found?.answer.account_id
}

/** The shard of this name; the only shard needs none. Throws `invalid_request` for any other. */
export function shardNamed({ shards }: Pick<Operators, "shards">, name: string | undefined): OperatedShard {
  const found = shards.find((shard) => shard.name === name)
  if (found !== undefined) return found
  const [first, ...others] = shards
  if (name === undefined && others.length === 0) return first
  throw invalidField("shard", `one of ${shards.map((shard) => shard.name).join(", ")}`)
}

/** What the body of something in a shard has: the name of the shard, if there are several. */
export function shardField(
  { shards }: Pick<Operators, "shards">,
  { name }: OperatedShard,
): { shard?: string } {
  return shards.length > 1 ? { shard: name } : {}
}

/**
 * The shards that can take a new account with this id, the first choice first: the open ones, in an order that depends on
 * the id alone. So accounts are spread evenly, and two requests with the same id choose the same shard.
 */
export function openShards({ shards }: Pick<Operators, "shards">, id: string): readonly OperatedShard[] {
  const open = shards.filter(({ open }) => open)
  const weightOf = ({ name }: OperatedShard) => Bun.hash.xxHash64(`${id} ${name}`)
  return open.sort((left, right) => (weightOf(left) < weightOf(right) ? 1 : -1))
}

export function noAccount(): GatewayError {
  return new GatewayError("not_found", { message: "No account has this id." })
}

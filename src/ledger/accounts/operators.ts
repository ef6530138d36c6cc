import { and, desc, eq, isNull, or, sql } from "drizzle-orm"
import type { Role } from "../../wire/roles.ts"
import { isAfter, type Page, type PageOf, pageOf } from "../database/page.ts"
import { type Db, firstRow } from "../database/statement.ts"
import { console_sessions, operators } from "../schema/operators.ts"
import type { Made } from "./made.ts"

/** Operators with tokens of their own (D101), in the first shard. */

export type OperatorRecord = Omit<typeof operators.$inferSelect, "token_hash">

export type OperatorOrder = Pick<
  typeof operators.$inferSelect,
  "id" | "name" | "role" | "token_hash" | "expires_at"
>

export interface Actor {
  readonly name: string
  readonly role: Role
  /** Null for the configured token and for a sign-in without a token. */
  readonly operator_id: string | null
}

const { id, name, role, expires_at, last_used_at, created_at, revoked_at } = operators
const shown = { id, name, role, expires_at, last_used_at, created_at, revoked_at }
const isValid = sql`${revoked_at} IS NULL AND coalesce(${expires_at} > now(), true)`

/** Adds an operator, whose name no other one may have that is not revoked. */
export async function createOperator(
  database: Db,
  order: OperatorOrder,
): Promise<Made<"operator", OperatorRecord, "conflict">> {
  const [made] = await database.insert(operators).values(order).onConflictDoNothing().returning(shown)
  if (made !== undefined) return { outcome: "created", operator: made }
  const known = await getOperator(database, order.id)
  return known === null ? { outcome: "conflict" } : { outcome: "known", operator: known }
}

export function getOperator(database: Db, own_id: string): Promise<OperatorRecord | null> {
  return firstRow(database.select(shown).from(operators).where(eq(id, own_id)))
}

/** Newest first, the revoked ones too. */
export function listOperators(database: Db, page: Page): Promise<PageOf<OperatorRecord>> {
  return pageOf(page, database.select(shown).from(operators).where(isAfter(page, id)).orderBy(desc(id)))
}

/** Replaces the token, and its expiry unless undefined, and ends its sessions. Null also for a revoked one. */
export function rotateOperator(
  database: Db,
  own_id: string,
  token: { readonly token_hash: string; readonly expires_at: Date | null | undefined },
): Promise<OperatorRecord | null> {
  return database.transaction(async (transaction) => {
    const [found = null] = await transaction
      .update(operators)
      .set(token)
      .where(and(eq(id, own_id), isNull(revoked_at)))
      .returning(shown)
    await transaction.delete(console_sessions).where(eq(console_sessions.operator_id, own_id))
    return found
  })
}

/** Revokes an operator for every request that arrives from now on; a second time changes nothing. False without such an operator. */
export async function revokeOperator(database: Db, own_id: string): Promise<boolean> {
  const found = await database
    .update(operators)
    .set({ revoked_at: sql`coalesce(${revoked_at}, statement_timestamp())` })
    .where(eq(id, own_id))
    .returning({ id })
  return found.length > 0
}

/** The operators by the hashes of their tokens, without unknown, expired and revoked ones. Writes each last use at most once a minute. */
export async function operatorsOfTokens(
  database: Db,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, Actor>> {
  const given = sql`ARRAY(SELECT json_array_elements_text(${JSON.stringify(hashes)}::text::json))`
  const rows = await database.execute<{ token_hash: string; id: string; name: string; role: Role }>(sql`
    WITH found AS (SELECT token_hash, ${id}, ${name}, ${role} FROM ${operators} WHERE ${operators.token_hash} = ANY (${given}) AND ${isValid}),
    due AS (SELECT ${id} FROM ${operators} WHERE ${id} IN (SELECT id FROM found)
      AND coalesce(${last_used_at} < now() - interval '1 minute', true) FOR UPDATE SKIP LOCKED),
    used AS (UPDATE ${operators} SET last_used_at = now() FROM due WHERE ${id} = due.id)
    SELECT token_hash, id, name, role FROM found`)
  return new Map(rows.map(({ token_hash, name, role, id }) => [token_hash, { name, role, operator_id: id }]))
}

/** The open sessions of the console (D50), by the hash of their secret. The ledger's clock ends them. */

/** Opens a session for `last_s` seconds, and deletes those that have expired. */
export async function openSession(
  database: Db,
  hash: string,
  last_s: number,
  { name: actor, role, operator_id }: Actor,
): Promise<void> {
  await database.execute(sql`
    WITH forgotten AS (DELETE FROM ${console_sessions} WHERE expires_at <= now())
    INSERT INTO ${console_sessions} (hash, expires_at, actor, role, operator_id)
    VALUES (${hash}, now() + make_interval(secs => ${last_s}), ${actor}, ${role}, ${operator_id}::uuid)`)
}

/** Who opened a session; null if it is over, or if the operator's token is. */
export function actorOfSession(database: Db, hash: string): Promise<Actor | null> {
  const s = console_sessions
  const found = database
    .select({ name: s.actor, role: sql<Role>`coalesce(${role}, ${s.role})`, operator_id: s.operator_id })
    .from(s)
    .leftJoin(operators, eq(id, s.operator_id))
    .where(and(eq(s.hash, hash), sql`${s.expires_at} > now()`, or(isNull(s.operator_id), isValid)))
  return firstRow(found)
}

/** Ends every session that this name has opened; how many were open. */
export async function endSessionsOf(database: Db, actor: string): Promise<number> {
  const s = console_sessions
  const ended = await database
    .delete(s)
    .where(eq(s.actor, actor))
    .returning({ is_open: sql<boolean>`${s.expires_at} > now()` })
  return ended.filter(({ is_open }) => is_open).length
}

/** Ends a session; does nothing if there is none. */
export async function endSession(database: Db, hash: string): Promise<void> {
  await database.delete(console_sessions).where(eq(console_sessions.hash, hash))
}

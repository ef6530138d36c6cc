import { and, eq, isNull, or, type SQL, sql } from "drizzle-orm"
import { parseId } from "../../id.ts"
import type { Db } from "../database/statement.ts"
import { end_users } from "../schema/labels.ts"
import { lockAccount } from "./keys.ts"

/** Removes an end user's name (D94), given by its name or id. Its id stays, because calls have it. Null without it. Throws `AccountMoving` (D76). */
export function forgetEndUser(database: Db, account_id: string, end_user: string) {
  return database.transaction(async (transaction) => {
    if (!(await lockAccount(transaction, account_id))) return null
    const id = await findEndUser(transaction, account_id, end_user)
    return id === null ? null : removeName(transaction, id, sql`pg_current_xact_id()`)
  })
}

/** The id of an end user of an account; null if this shard has none of this name or id. */
export async function findEndUser(
  database: Db,
  account_id: string,
  end_user: string,
): Promise<string | null> {
  const id = parseId(end_user)
  const [found] = await database
    .select({ id: end_users.id })
    .from(end_users)
    .where(
      and(
        eq(end_users.account_id, account_id),
        or(eq(end_users.subject, end_user), id === null ? undefined : eq(end_users.id, id)),
      ),
    )
    // A client may have named another one by this id.
    .orderBy(id === null ? sql`1` : sql`${end_users.id} <> ${id}::uuid`)
  return found?.id ?? null
}

/** Removes the name of an end user. In a shard that the account has left it has no `xid`, and so is no event. */
export async function removeName(database: Db, id: string, xid: SQL | null = null) {
  await database
    .update(end_users)
    .set({ subject: null, forgotten_at: sql`now()`, xid })
    .where(and(eq(end_users.id, id), isNull(end_users.forgotten_at)))
  const [user] = await database
    .select({ id: end_users.id, forgotten_at: end_users.forgotten_at })
    .from(end_users)
    .where(eq(end_users.id, id))
  return user?.forgotten_at == null ? null : { id: user.id, forgotten_at: user.forgotten_at }
}

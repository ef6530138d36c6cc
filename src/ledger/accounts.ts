import { desc, eq, lt } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { nextId } from "../id.ts"
import { type Listed, type Page, paged } from "./page.ts"
import { accounts } from "./schema.ts"

export type Account = typeof accounts.$inferSelect

/** Opens an account with a balance of 0. The same `id` again changes nothing and returns what stands there. */
export async function createAccount(
  database: PostgresJsDatabase,
  { id = nextId(), name }: { id?: string; name: string },
): Promise<Account> {
  const [created] = await database.insert(accounts).values({ id, name }).onConflictDoNothing().returning()
  const account = created ?? (await getAccount(database, id))
  if (account === null) throw new Error("an account was neither created nor there")
  return account
}

/** The account, or null when there is none. */
export async function getAccount(database: PostgresJsDatabase, id: string): Promise<Account | null> {
  const [account] = await database.select().from(accounts).where(eq(accounts.id, id))
  return account ?? null
}

/** All accounts, newest first. */
export async function listAccounts(database: PostgresJsDatabase, page: Page): Promise<Listed<Account>> {
  const rows = await database
    .select()
    .from(accounts)
    .where(page.after === null ? undefined : lt(accounts.id, page.after))
    .orderBy(desc(accounts.id))
    .limit(page.limit + 1)
  return paged(rows, page)
}

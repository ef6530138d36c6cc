import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"

/** A database or an open transaction in it, to run statements on. */
export type Db = Pick<
  PostgresJsDatabase,
  "select" | "insert" | "update" | "delete" | "execute" | "transaction" | "$count"
>

import type { Runner } from "../database/connection.ts"
import { isForExact, isNotSupported } from "../database/database-errors.ts"
import { idsOf, type Statement, type StatementValues } from "../database/statement.ts"

/** The accounts whose items a lean statement has done; the exact statement does the rest. */
export type DoneAccounts = Pick<ReadonlySet<string>, "has">

const NONE: DoneAccounts = { has: () => false }
const ALL: DoneAccounts = { has: () => true }

interface FilledStatement {
  readonly statement: Statement
  readonly values: StatementValues
}

/** Connections to a server without support for the short forms, because Citus refuses a volatile function in an UPDATE. */
const without_short_forms = new WeakSet<Runner>()

/** Runs the batch's short form, which returns a row or none, or else its `whole` form, which counts the done accounts. */
export async function runLean(
  connection: Runner,
  size: number,
  within_ms: number,
  short: FilledStatement | null,
  whole: () => FilledStatement,
): Promise<DoneAccounts> {
  try {
    if (short !== null && !without_short_forms.has(connection)) {
      const rows = await connection.run(short.statement, short.values, within_ms, size)
      return rows.length === 1 ? ALL : NONE
    }
    const { statement, values } = whole()
    const [row] = await connection.run(statement, values, within_ms, size)
    if (row === undefined) throw new Error("the statement of a batch returned no row")
    if (row.accounts === 0) return NONE
    return row.only === null ? ALL : new Set(idsOf(row, "only"))
  } catch (error) {
    if (isNotSupported(error)) without_short_forms.add(connection)
    // Rolled back, for some item or all. The exact statement decides each.
    if (isForExact(error)) return NONE
    throw error
  }
}

import type { Connection } from "./connection.ts"
import type { Statement, Values } from "./statement.ts"
import { troubleOf } from "./trouble.ts"

/**
 * Whether the short form of a statement, for one call alone, did it. If not, nothing was done, and the batch statement
 * is asked why: so every refusal has one place that words it. That goes for data that the books do not take too, which
 * may be an id that somebody else has written meanwhile.
 */
export async function isDoneAlone(
  connection: Connection,
  statement: Statement,
  values: Values,
  within_ms: number,
): Promise<boolean> {
  try {
    return (await connection.run(statement, values, within_ms)).length === 1
  } catch (error) {
    if (troubleOf(error) === "poison") return false
    throw error
  }
}

import type { Db } from "../../src/ledger/database/statement.ts"
import {
  type GroupedSpan,
  type GroupSums,
  MAX_GROUPS,
  readUsage,
} from "../../src/ledger/reports/usage-sums.ts"

/** A usage report as one value: its groups and its total. */
export async function sumUsage(database: Db, range: GroupedSpan, most = MAX_GROUPS) {
  const groups: GroupSums[] = []
  const totals = await readUsage(database, range, most, async (some) => void groups.push(...some))
  return { groups, ...totals }
}

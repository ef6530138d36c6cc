import { nextId } from "../../src/id.ts"
import { type Budget, type BudgetOrder, createBudget } from "../../src/ledger/accounts/budgets.ts"
import type { Database } from "../../src/ledger/database/database.ts"

/** Makes a budget of an account: hard, for 100 nano-USD of all its calls in a month, unless it is said otherwise. */
export async function budgetOf(
  database: Database["operators"],
  { account_id }: Pick<BudgetOrder, "account_id">,
  changes: Partial<BudgetOrder> = {},
): Promise<Budget> {
  const made = await createBudget(database, {
    id: nextId(),
    account_id,
    name: "a budget",
    selector: "all",
    selected: null,
    unit: "usd",
    amount: 100n,
    period: "month",
    timezone: "UTC",
    is_hard: true,
    thresholds: [],
    actor: "test",
    reason: null,
    ...changes,
  })
  if (!("budget" in made)) throw new Error(made.outcome)
  return made.budget
}

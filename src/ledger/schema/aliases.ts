import { alias } from "drizzle-orm/pg-core"
import { budget_windows, budgets } from "./budgets.ts"
import { grant_entries } from "./grants.ts"
import { accounts, corrections, ends, gateways, holds, keys, terms } from "./tables.ts"

/** The letters of the tables that most statements read. */

export const a = alias(accounts, "a")
export const b = alias(budgets, "b")
export const c = alias(corrections, "c")
export const e = alias(ends, "e")
export const g = alias(gateways, "g")
export const h = alias(holds, "h")
export const k = alias(keys, "k")
export const n = alias(grant_entries, "n")
export const t = alias(terms, "t")
export const w = alias(budget_windows, "w")

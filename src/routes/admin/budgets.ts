import { Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import { Elysia } from "elysia"
import { parseId } from "../../id.ts"
import { type BudgetUpdate, MAX_BUDGETS, MAX_EACH } from "../../ledger/accounts/budgets.ts"
import { checkExpiry, KeyGroup } from "../../wire/admin.ts"
import { BudgetLogQuery, PageQuery, pageOf } from "../../wire/admin-query.ts"
import { type BudgetPeriod, type BudgetUnit, parseAmount } from "../../wire/budget.ts"
import { BudgetBody, BudgetChangeBody, BudgetReset, NewBudget } from "../../wire/budget-bodies.ts"
import { BudgetEventBody, BudgetLogBody } from "../../wire/events.ts"
import { EXPECTED, invalidField, invalidRequest, takenId } from "../../wire/fault.ts"
import { isTagName, isTagValue } from "../../wire/labels.ts"
import { budgetLogBody } from "../event-body.ts"
import { budgetBody, pageBody } from "../record-bodies.ts"
import { exampleOf } from "../reference/example.ts"
import { accepted, answer, found, page, shown } from "../reference/operation.ts"
import { NO_ACCOUNT, NO_BUDGET, ofOne } from "../reference/routes.ts"
import { authorOf } from "./authorize.ts"
import type { Operators } from "./operators.ts"

/** `/admin/accounts/{id}/budgets` and `/admin/budgets/{id}`: the budgets of an account (D97). */
export function budgetRoutes({ ledger }: Operators) {
  const change = async (id: string, update: BudgetUpdate) => {
    const budget = await ledger.changeBudget(id, update)
    return budgetBody(found(budget, NO_BUDGET))
  }
  return new Elysia({ name: "admin-budgets" })
    .post(
      "/accounts/:id/budgets",
      async ({ params, body, request, status }) => {
        const { unit = "usd", per, mode = "hard", timezone = "UTC", thresholds = [], amount, ...rest } = body
        if (per === "minute" && unit === "usd")
          throw invalidField("unit", "tokens or requests for a budget per minute")
        checkMinute(per, mode, thresholds)
        const made = accepted(
          await ledger.createBudget({
            ...rest,
            ...authorOf(request, body.reason),
            account_id: params.id,
            selected: selectedOf(body),
            unit,
            amount: amountIn(unit, amount, "amount"),
            period: per,
            timezone,
            is_hard: mode === "hard",
            thresholds: inOrder(thresholds),
          }),
          REFUSALS,
        )
        return status(made.outcome === "created" ? 201 : 200, budgetBody(made.budget))
      },
      ofOne("account", {
        body: shown(NewBudget, requests),
        response: {
          200: answer("A budget with this id already exists. Nothing was changed.", BudgetBody),
          201: answer("The budget.", BudgetBody, unusedOf),
        },
        operationId: "createBudget",
        summary: "Create a budget",
        description:
          "A call counts in every budget of its account that selects it, and is admitted only if it fits in each hard one and in the balance. A budget of each end user, or of each value of a tag, gives each the amount by itself. While it is open it counts what it holds, and afterwards what it cost. The budget also counts the calls that were made earlier in its current period; a `total` and a `minute` count from its creation. A budget per `minute` is a rate limit of tokens or requests: a call that does not fit now gets a 429 `rate_limited`. It is always `hard` and has no thresholds. Selector, unit, period and time zone cannot be changed later.",
        invalid: "amount",
      }),
    )
    .get(
      "/accounts/:id/budgets",
      async ({ params, query }) =>
        pageBody(found(await ledger.listBudgets(params.id, pageOf(query)), NO_ACCOUNT), budgetBody),
      ofOne("account", {
        query: PageQuery,
        response: { 200: page("budgets", BudgetBody) },
        operationId: "listBudgets",
        summary: "List an account's budgets",
        description:
          "Lists budgets, newest first, with what their current period has spent, holds and has left.",
      }),
    )
    .get(
      "/budgets/:id/entries",
      async ({ params, query }) =>
        pageBody(found(await ledger.listBudgetLog(params.id, pageOf(query)), NO_BUDGET), budgetLogBody),
      ofOne("budget", {
        query: BudgetLogQuery,
        response: {
          200: page("entries", BudgetLogBody, {
            type: "tollgate.budget.created",
            data: exampleOf(BudgetEventBody, { reason: null }),
          }),
        },
        operationId: "listBudgetEntries",
        summary: "List what happened to a budget",
        description:
          "Lists its changes, raises, resets and deletion with who made them and why, and the thresholds that its spending reached, newest first. Each entry has the id and the data of its [event](events.md). The entries of a deleted budget stay.",
        invalid: "after",
      }),
    )
    .patch(
      "/budgets/:id",
      async ({ params: { id }, body, request }) => {
        const author = authorOf(request, body.reason)
        checkExpiry(body.raise?.until, Date.now(), "raise.until")
        const { period, unit } = found(await ledger.getBudget(id), NO_BUDGET)
        const { name, amount, mode, thresholds, raise } = body
        checkMinute(period, mode, thresholds)
        const raised = raise && { ...raise, amount: amountIn(unit, raise.amount, "raise.amount") }
        const changes = {
          name,
          amount: amount === undefined ? undefined : amountIn(unit, amount, "amount"),
          is_hard: mode === undefined ? undefined : mode === "hard",
          thresholds: thresholds && inOrder(thresholds),
        }
        const is_changed = Object.values(changes).some((value) => value !== undefined)
        if (is_changed && raised !== undefined)
          throw invalidField("raise", "no other field beside it than reason")
        return raised === undefined
          ? change(id, { change: "changed", ...changes, ...author })
          : change(id, { change: "raised", raise: raised, ...author })
      },
      ofOne("budget", {
        body: shown(BudgetChangeBody, {
          amount: { amount: "750", reason: "Agreed with finance" },
          raise: { raise: { amount: "900", until: "2099-01-01T00:00:00Z" }, reason: "Launch" },
          lower: { raise: null },
        }),
        response: {
          200: answer("The changed budget.", BudgetBody, {
            amount: { amount: "750", limit: "750", left: "746.783595" },
            raise: {
              limit: "900",
              left: "896.783595",
              raise: { amount: "900", until: "2099-01-01T00:00:00.000Z" },
            },
            lower: {},
          }),
        },
        operationId: "changeBudget",
        summary: "Change or raise a budget",
        description:
          "Fields that you leave out stay unchanged. `raise` sets another amount until a time, and null ends it. The change applies to every call that is held after this response, and is recorded in the journal.",
        invalid: "amount",
      }),
    )
    .post(
      "/budgets/:id/reset",
      ({ params: { id }, body: { reason }, request }) =>
        change(id, { change: "reset", ...authorOf(request, reason) }),
      ofOne("budget", {
        body: shown(BudgetReset, { reset: { reason: "Test calls" } }),
        response: { 200: answer("The budget.", BudgetBody, { reset: { ...unused, left: "10" } }) },
        operationId: "resetBudget",
        summary: "Reset a budget",
        description:
          "Begins the current period anew: calls that were made before no longer count, also those that are open. Their charges stay. The next period begins when it would have.",
        invalid: "reason",
      }),
    )
    .delete(
      "/budgets/:id",
      async ({ params: { id }, request, status }) => {
        await change(id, { change: "deleted", ...authorOf(request, undefined) })
        return status(204, undefined)
      },
      ofOne("budget", {
        response: { 204: answer("The budget is deleted.", Type.Void()) },
        operationId: "deleteBudget",
        summary: "Delete a budget",
        description: "It no longer limits or counts calls. The journal keeps its entries.",
      }),
    )
}

/** A budget per minute has no window that could reach a threshold (D99). */
function checkMinute(per: BudgetPeriod, mode: string | undefined, thresholds: readonly number[] = []): void {
  if (per !== "minute") return
  if (mode === "alert") throw invalidField("mode", "hard for a budget per minute")
  if (thresholds.length > 0) throw invalidField("thresholds", "none for a budget per minute")
}

/** The distinct thresholds, ascending. */
function inOrder(thresholds: readonly number[]): number[] {
  return [...new Set(thresholds)].sort((one, other) => one - other)
}

function selectedOf({ selector, selected }: Pick<NewBudget, "selector" | "selected">): string | null {
  if (selector === "all") {
    if (selected !== undefined) throw invalidField("selected", "no such field with the selector all")
    return null
  }
  if (selected === undefined) {
    if (selector === "end_user") return null
    throw invalidField("selected", `the ${selector} that counts`)
  }
  if (selector === "key") {
    const id = parseId(selected)
    if (id === null) throw invalidField("selected", "the id of a key")
    return id
  }
  if (selector === "group" && !Value.Check(KeyGroup, selected))
    throw invalidField("selected", String(KeyGroup[EXPECTED]))
  if (selector === "tag" && !isTag(selected))
    throw invalidField("selected", "a tag such as team=search, or its name for each value")
  return selected
}

function isTag(text: string): boolean {
  const [name = "", value, ...rest] = text.split("=")
  return isTagName(name) && (value === undefined || isTagValue(value)) && rest.length === 0
}

function amountIn(unit: BudgetUnit, text: string, field: string): bigint {
  const amount = parseAmount(unit, text)
  if (amount !== null) return amount
  throw invalidField(
    field,
    unit === "usd" ? "USD with at most 9 digits before and 9 after the point" : `a whole number of ${unit}`,
  )
}

const REFUSALS = {
  no_account: NO_ACCOUNT,
  no_key: () => invalidField("selected", "the id of a key of this account"),
  too_many: () =>
    invalidRequest(
      `This account has ${MAX_BUDGETS} budgets, the most that one can have. Nothing was changed.`,
    ),
  too_many_of_each: () =>
    invalidRequest(
      `This account has ${MAX_EACH} budgets of each end user or of each value of a tag, the most that one can have. Nothing was changed.`,
    ),
  conflict: () => takenId("budget"),
}

const unused = { spent: "0", held: "0" }

type Requested = Partial<BudgetBody> & Pick<BudgetBody, "amount" | "per" | "selector">

const requests: Readonly<Record<string, Requested>> = {
  group: {
    name: "Search team",
    selector: "group",
    selected: "acme/search",
    amount: "500",
    per: "month",
    timezone: "Europe/Berlin",
    thresholds: [80, 100],
  },
  tokens: { name: "Tokens of all keys", selector: "all", unit: "tokens", amount: "2000000", per: "hour" },
  rate: { name: "Tokens per minute", selector: "all", unit: "tokens", amount: "100000", per: "minute" },
  alert: {
    name: "Large model",
    selector: "model",
    selected: "gpt-5-mini",
    amount: "100",
    per: "day",
    mode: "alert",
  },
  each: { name: "Each end user", selector: "end_user", amount: "5", per: "day" },
  tag: { name: "Search", selector: "tag", selected: "feature=search", amount: "300", per: "month" },
}

const unusedOf = Object.fromEntries(
  Object.entries(requests).map(([name, settings]) => {
    const { amount, per, selector } = settings
    const usual = { selected: null, timezone: "UTC", thresholds: [], each: selector === "end_user" }
    const never = per === "minute" ? { resets_at: null } : {}
    return [name, { ...unused, ...usual, ...settings, limit: amount, left: amount, ...never }]
  }),
)

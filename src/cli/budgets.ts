import { BUDGET_EVENT, printLogged, printSelected } from "../wire/budget.ts"
import { BudgetBody } from "../wire/budget-bodies.ts"
import { BudgetLogBody } from "../wire/events.ts"
import { ACCOUNT, accountId } from "./accounts.ts"
import { type AdminContext, adminCommand, listCommand } from "./admin-command.ts"
import { UsageError } from "./cli-error.ts"
import type { Given, Group } from "./command.ts"
import { briefMoment, moment, parseMoment } from "./moment.ts"
import { columnsOf, usd } from "./screen.ts"
import { idOf, REASON } from "./typed-words.ts"

/** `tollgate budget`: the budgets of an account (D97). */

const BUDGET = { "<budget>": 'the id of the budget, as shown by "tollgate budget list"' } as const
const EXAMPLE = "019f8b1c-6666-7000-9d4e-1a6b8c0f7e32"
const SETTINGS = {
  "--name <NAME>": "its name, which errors show",
  "--mode <MODE>": "hard (the default) refuses calls, alert only counts",
  "--thresholds <50,80>": "percentages that the journal records when they are reached",
} as const

const column = columnsOf(BudgetBody)
const loggedColumn = columnsOf(BudgetLogBody)

const SELECTORS = {
  "--key <ID>": "count the calls of this key",
  "--group <PATH>": "count the calls of the keys in this group, such as acme/search, and below it",
  "--model <NAME>": "count the calls to this model",
  "--end-user <NAME>": "count the calls of this end user, by its name or id",
  "--each-end-user": "count the calls of each end user by itself",
  "--tag <TAG>": "count the calls with this tag, such as team=search; with a name only, each value by itself",
} as const

/** The calls that count, and a name for the budget, without that of an end user, because erasure would not remove it. */
function selectedBy({
  key,
  group,
  model,
  tag,
  "end-user": end_user,
  "each-end-user": each,
}: Given<typeof SELECTORS>) {
  const given = Object.entries({ key, group, model, tag, end_user }).filter(([, text]) => text !== undefined)
  if (each) given.push(["end_user", undefined])
  const [[selector, selected] = ["all", undefined], ...others] = given
  if (others.length > 0) throw new UsageError("only one of the options that select calls can be used")
  const titles: Readonly<Record<string, string>> = {
    all: "All calls",
    end_user: selected === undefined ? "Each end user" : "End user",
  }
  return { selector, selected, title: titles[selector] ?? `${selector} ${selected}` }
}

export const budget: Group = {
  summary: "Create, list, change, raise, reset and delete budgets, and read their log",
  commands: {
    list: listCommand({
      summary: "List an account's budgets, newest first",
      words: ACCOUNT,
      examples: { "tollgate budget list Acme": "what each has spent, holds and has left" },
      entry: BudgetBody,
      columns: [
        column("id"),
        column("name", { least: 8 }),
        column("selector", { of: printSelected, least: 8, spare: 2 }),
        column("limit", { of: (budget) => `${amountOf(budget.limit, budget)}/${budget.per}` }),
        column("spent", { of: (budget) => shownAmount(budget.spent, budget), as: "point" }),
        column("held", { of: (budget) => shownAmount(budget.held, budget), as: "point", spare: 1 }),
        column("left", { of: (budget) => shownAmount(budget.left, budget), as: "point" }),
        column("mode", { spare: 3 }),
        column("resets_at", {
          of: ({ resets_at, per }) =>
            resets_at === null ? neverOf(per) : briefMoment(resets_at, Date.now()),
          spare: 4,
        }),
      ],
      empty: "This account has no budgets. Create one: tollgate budget create ACCOUNT 500/month",
      path: async ({ account }, context) => [`/accounts/${await accountId(context, account)}/budgets`],
    }),
    log: listCommand({
      summary: "List what happened to a budget, newest first",
      details:
        "Its changes, with who made them and why, and the thresholds that it reached; also of a deleted budget.",
      words: BUDGET,
      examples: { [`tollgate budget log ${EXAMPLE}`]: "who raised it, when and why" },
      entry: BudgetLogBody,
      columns: [
        loggedColumn("time"),
        loggedColumn("type", { of: ({ type }) => type.slice(BUDGET_EVENT.length) }),
        { title: "ACTOR", of: ({ data }) => ("actor" in data ? data.actor : null) },
        { title: "REASON", of: ({ data }) => ("actor" in data ? data.reason : null), least: 8 },
        { title: "VALUES", of: printLogged, least: 20 },
      ],
      empty: "No more entries.",
      path: async ({ budget }) => [`/budgets/${budgetId(budget)}/entries`],
    }),
    create: adminCommand({
      summary: "Create a budget",
      details:
        "Counts all calls of the account, or those that one of --key, --group, --model, --end-user, --each-end-user and --tag selects.",
      words: {
        ...ACCOUNT,
        "<limit>": "AMOUNT/PERIOD: the period is minute, hour, day, week, month or total",
        ...SELECTORS,
        "--unit <UNIT>": "usd (the default), tokens or requests",
        "--timezone <ZONE>": "the time zone of its periods (default: UTC)",
        ...SETTINGS,
        ...REASON,
      },
      examples: {
        "tollgate budget create Acme 5000/month --name Organisation": "of all calls of the account",
        "tollgate budget create Acme 500/month --group acme/search --timezone Europe/Berlin": "of a team",
        "tollgate budget create Acme 2000000/hour --unit tokens --mode alert": "counts, and refuses nothing",
        "tollgate budget create Acme 100000/minute --unit tokens": "a rate limit, which refills evenly",
        "tollgate budget create Acme 5/day --each-end-user": "of each end user by itself",
      },
      async run({ account, limit, unit, timezone, reason, name, mode, thresholds, ...selectors }, context) {
        const { selector, selected, title } = selectedBy(selectors)
        const [amount, per, ...rest] = limit.split("/")
        if (amount === undefined || per === undefined || rest.length > 0)
          throw new UsageError("limit: expected AMOUNT/PERIOD, such as 500/month")
        const settings = fieldsOf({ name: name ?? title, mode, thresholds })
        const fields = { selector, selected, unit, amount, per, timezone, reason, ...settings }
        const id = await accountId(context, account)
        showBudget(context, await context.client.post(`/accounts/${id}/budgets`, fields, BudgetBody))
      },
    }),
    change: adminCommand({
      summary: "Change a budget's amount, name, mode or thresholds",
      words: { ...BUDGET, "--amount <AMOUNT>": "its amount, in its unit", ...SETTINGS, ...REASON },
      examples: {
        [`tollgate budget change ${EXAMPLE} --amount 750 --reason "Agreed with finance"`]: "another amount",
      },
      async run({ budget, amount, reason, ...settings }, context) {
        const fields = { amount, ...fieldsOf(settings) }
        if (Object.values(fields).every((value) => value === undefined))
          throw new UsageError("nothing to change: use --amount, --name, --mode or --thresholds")
        await patch(context, budget, { ...fields, reason })
      },
    }),
    raise: adminCommand({
      summary: "Raise a budget until a time",
      words: {
        ...BUDGET,
        "<amount>": "its amount until then, or none to end the raise",
        "--until <TIME>": "when the raise ends: 2026-12-31, an RFC 3339 time, or 48h (from now)",
        ...REASON,
      },
      examples: { [`tollgate budget raise ${EXAMPLE} 900 --until 48h --reason Launch`]: "for two days" },
      async run({ budget, amount, until, reason }, context) {
        if (amount === "none") return patch(context, budget, { raise: null, reason })
        const time = until === undefined ? null : parseMoment(until, Date.now(), "ahead")
        if (time === null) throw new UsageError("--until: expected 2026-12-31, an RFC 3339 time, or 48h")
        return patch(context, budget, { raise: { amount, until: time }, reason })
      },
    }),
    reset: adminCommand({
      summary: "Begin the current period of a budget anew",
      words: { ...BUDGET, ...REASON },
      examples: {
        [`tollgate budget reset ${EXAMPLE} --reason "Test calls"`]: "earlier calls no longer count",
      },
      async run({ budget, reason }, context) {
        showBudget(
          context,
          await context.client.post(`/budgets/${budgetId(budget)}/reset`, { reason }, BudgetBody),
        )
      },
    }),
    delete: adminCommand({
      summary: "Delete a budget",
      words: BUDGET,
      examples: {
        [`tollgate budget delete ${EXAMPLE}`]: "it no longer limits calls; the journal keeps its entries",
      },
      async run({ budget }, context) {
        const id = budgetId(budget)
        await context.client.delete(`/budgets/${id}`)
        context.show(null, () => `Deleted the budget ${id}.`)
      },
    }),
  },
}

const budgetId = (word: string) => idOf(word, "a budget", '"tollgate budget list ACCOUNT" lists the ids')

function fieldsOf({ name, mode, thresholds }: Given<typeof SETTINGS>) {
  return { name, mode, thresholds: thresholds?.split(",").map(Number) }
}

async function patch(context: AdminContext, word: string, fields: object): Promise<void> {
  showBudget(context, await context.client.patch(`/budgets/${budgetId(word)}`, fields, BudgetBody))
}

function showBudget(context: AdminContext, budget: BudgetBody): void {
  const { per, timezone, raise, thresholds, resets_at } = budget
  context.showCard(BudgetBody, budget, (line) => [
    ...line.each("id", "name"),
    line("selector", printSelected(budget)),
    line("limit", `${amountOf(budget.limit, budget)} per ${per} (${timezone})`),
    line("raise", raise && `${amountOf(raise.amount, budget)} until ${moment(raise.until)}`),
    line("mode"),
    line("thresholds", thresholds.map((percent) => `${percent} %`).join(", ") || undefined),
    line("spent", amountOf(budget.spent, budget)),
    line("held", amountOf(budget.held, budget)),
    line("left", amountOf(budget.left, budget)),
    line("resets_at", resets_at === null ? neverOf(per) : moment(resets_at)),
  ])
}

function neverOf(per: BudgetBody["per"]): string {
  return per === "minute" ? "refills evenly" : "never"
}

function amountOf(amount: string, budget: BudgetBody): string {
  return `${shownAmount(amount, budget)} ${budget.unit === "usd" ? "USD" : budget.unit}`
}

function shownAmount(amount: string, { unit }: BudgetBody): string {
  return unit === "usd" ? usd(amount) : amount
}

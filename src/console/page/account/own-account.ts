import { printSelected } from "../../../wire/budget.ts"
import { OwnBudget } from "../../../wire/budget-bodies.ts"
import { OwnAccount, Receipt } from "../../../wire/receipt.ts"
import { withQuery } from "../../fragment.ts"
import type { ListBody } from "../admin-api.ts"
import { button, el, named } from "../element.ts"
import { ago, brief, callLink, chip, detail, entriesOf, usd } from "../formats.ts"
import { part, type ViewPart, type Visit, view } from "../part.ts"
import { columnsOf, list } from "../table.ts"
import { amountOf } from "../views/budgets.ts"
import { chargeOf, stateOf, tokensOf, tookOf } from "../views/calls.ts"
import { askOwn } from "./own-api.ts"
import { ownKeys } from "./own-keys.ts"
import { ownStatements } from "./own-statements.ts"
import { ownUsage } from "./own-usage.ts"

const PAGE = "20"

/** The account of a key as far as the key can read it: balance, usage, credits, budgets and calls (D47, D104). */
export function ownAccount(visit: Visit): HTMLElement {
  const title = el("span", "Your account")
  // One answer for the three parts that show it.
  const account = askOwn<OwnAccount>("/account", visit.signal)
  const totals = part(visit, {
    class: "totals",
    async content() {
      const found = await account
      const entry = entriesOf(OwnAccount, found)
      title.replaceChildren(named(found.name), " ", ...(found.suspended ? [chip("suspended")] : []))
      document.title = found.name
      return detail("tiles", [
        entry("available", undefined, "for new calls"),
        entry("balance", undefined, "credits minus charges"),
        entry("held", undefined, "by open calls"),
        entry("credit_limit", undefined, "below 0"),
        ["This key", named(found.key.name ?? `${found.key.prefix}…`), limitWords(found.key)],
      ])
    },
  })
  const parts = [
    totals,
    ownUsage(visit),
    grants(visit, account),
    budgets(visit, account),
    ownKeys(visit, account),
    ownStatements(visit),
    calls(visit),
  ]
  return view(title, null, ...parts.map(({ element }) => element))
}

function limitWords({ spending_limit, spent, suspended }: OwnAccount["key"]): string {
  const words =
    spending_limit === null
      ? "without a limit"
      : `spent ${spent} of ${spending_limit.amount} USD per ${spending_limit.per}`
  return suspended ? `suspended, ${words}` : words
}

function grants(visit: Visit, account: Promise<OwnAccount>): ViewPart {
  return list(visit, {
    title: "Credits that are left",
    label: "Credits",
    columns: [
      [
        "Expires",
        ({ expires_at }: OwnAccount["grants"][number]) => (expires_at === null ? "never" : brief(expires_at)),
      ],
      ["Left", ({ remaining }) => usd(remaining), "right"],
    ],
    empty: "Nothing of the balance expires.",
    load: async () => ({ data: (await account).grants }),
  })
}

function budgets(visit: Visit, account: Promise<OwnAccount>): ViewPart {
  const column = columnsOf(OwnBudget)
  return list(visit, {
    title: "Budgets of this key",
    label: "Budgets",
    columns: [
      column("name"),
      column("selector", (budget) => printSelected({ ...budget, each: false })),
      column("limit", (budget) => el("span", amountOf(budget, budget.limit), ` per ${budget.per}`)),
      column("spent", (budget) => amountOf(budget, budget.spent)),
      column("left", (budget) => amountOf(budget, budget.left)),
      column("resets_at", ({ resets_at }) => ago(resets_at)),
    ],
    empty: "No budgets. Only the balance limits the calls of this key.",
    load: async () => ({ data: (await account).budgets }),
  })
}

function calls(visit: Visit): ViewPart {
  const column = columnsOf(Receipt)
  let after = ""
  const turn = (to: string) => {
    after = to
    void made.load()
  }
  const made = list(visit, {
    title: "Calls",
    columns: [
      column("id", ({ id }) => callLink(id)),
      ...column.each("held_at", "model", "operation"),
      column("state", stateOf),
      column("charge", chargeOf),
      ["Tokens", tokensOf, "right"],
      column("duration_ms", tookOf),
    ],
    empty: "No calls yet.",
    load: (signal) => askOwn<ListBody<Receipt>>(withQuery("/calls", { limit: PAGE, after }), signal),
    below: ({ next }) =>
      el(
        "div.pages",
        after === "" ? null : button("Newest", () => turn("")),
        next === null ? null : button("Older", () => turn(next)),
      ),
  })
  return made
}

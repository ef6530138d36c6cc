import { StatedMonth, StatementBody } from "../../../wire/statement.ts"
import { addressOf } from "../../fragment.ts"
import type { ListBody } from "../admin-api.ts"
import { button, el } from "../element.ts"
import { count, detail, entriesOf, usd } from "../formats.ts"
import { part, type ViewPart, type Visit, view } from "../part.ts"
import { columnsOf, list, type PageColumn, table } from "../table.ts"
import { askOwn } from "./own-api.ts"

/** The months of the account, each with a link to its statement (D106). */
export function ownStatements(visit: Visit): ViewPart {
  return list(visit, {
    title: "Statements",
    label: "Statements",
    key: ({ month }: StatedMonth) => month,
    columns: [
      columnsOf(StatedMonth)("month", ({ month }) =>
        el("a", { href: addressOf("statements", month) }, month),
      ),
      ["State", ({ is_final }) => (is_final ? "final" : "the month is not over")],
    ],
    empty: "No months yet.",
    load: (signal) => askOwn<ListBody<StatedMonth>>("/statements", signal),
  })
}

/** The statement of a month, in a form that can be printed. */
export function ownStatement(visit: Visit, month: string): HTMLElement {
  const made = part(visit, {
    title: null,
    class: "receipt",
    content: async (signal) =>
      statementOf(await askOwn<StatementBody>(`/statements/${encodeURIComponent(month)}`, signal)),
  })
  const tools = el(
    "div.actions",
    el("a", { href: "#/" }, "All months"),
    button("Print", () => print()),
  )
  return view(`Statement ${month}`, tools, made.element)
}

function statementOf(statement: StatementBody): HTMLElement {
  const entry = entriesOf(StatementBody, statement)
  const rows = <Row>(label: string, data: readonly Row[], columns: readonly PageColumn<Row>[]) => {
    const made = table<Row>({ label, columns, empty: "None." })
    made.show(data)
    return el("section.card", { "aria-label": label }, el("h2", label), made.element)
  }
  return el(
    "div",
    el(
      "section.card",
      { "aria-label": "Summary" },
      detail("facts", [
        entry("account_name"),
        entry("account_id"),
        entry("from"),
        entry("to"),
        entry("opening"),
        entry("credited"),
        entry("charged"),
        entry("expired"),
        entry("voided"),
        entry("closing"),
      ]),
    ),
    rows("Credits", statement.credits, [
      ["Kind", ({ kind }) => kind],
      ["Credits", ({ credits }) => count(credits), "right"],
      ["Amount", ({ amount }) => usd(amount), "right"],
    ]),
    rows("Charges", statement.charges, [
      ["Model", ({ model }) => model],
      ["Calls", ({ calls }) => count(calls), "right"],
      ["Prompt", ({ prompt_tokens }) => count(prompt_tokens), "right"],
      ["Cached", ({ cached_tokens }) => count(cached_tokens), "right"],
      ["Output", ({ completion_tokens }) => count(completion_tokens), "right"],
      ["Charge", ({ charge }) => usd(charge), "right"],
    ]),
  )
}

import { StatedCharges, StatedCredits, StatedMonth, StatementBody } from "../../../wire/statement.ts"
import { addressOf } from "../../fragment.ts"
import type { ListBody } from "../admin-api.ts"
import { button, el } from "../element.ts"
import { detail, entriesOf } from "../formats.ts"
import { part, section, type ViewPart, type Visit, view } from "../part.ts"
import { columnsOf, list, type PageColumn, table } from "../table.ts"
import { askOwn } from "./own-api.ts"

/** The months of the account, each with a link to its statement (D106). */
export function ownStatements(visit: Visit): ViewPart {
  return list(visit, {
    title: "Statements",
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

export function ownStatement(visit: Visit, month: string): HTMLElement {
  const made = part(visit, {
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

const credit = columnsOf(StatedCredits)
const charge = columnsOf(StatedCharges)

function statementOf(statement: StatementBody): HTMLElement {
  const entry = entriesOf(StatementBody, statement)
  const fields = ["account_name", "account_id", "from", "to"] as const
  const amounts = ["opening", "credited", "charged", "expired", "voided", "closing"] as const
  const summary = [...fields, ...amounts].map((field) => entry(field))
  const rows = <Row>(label: string, data: readonly Row[], columns: readonly PageColumn<Row>[]) => {
    const made = table<Row>({ label, columns, empty: "None." })
    made.show(data)
    return section(label, made.element)
  }
  return el(
    "div",
    el("section.card", { "aria-label": "Summary" }, detail("facts", summary)),
    rows("Credits", statement.credits, [credit("kind"), credit("credits"), credit("amount")]),
    rows("Charges", statement.charges, [
      ...charge.each("model", "calls", "prompt_tokens", "cached_tokens", "completion_tokens", "charge"),
    ]),
  )
}

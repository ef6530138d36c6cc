import { Receipt } from "../../../wire/receipt.ts"
import { basisWords, endingWords, failureWords, noteWords } from "../../words.ts"
import { el } from "../element.ts"
import { copyable, entriesOf, none } from "../formats.ts"
import { part, type Visit, view } from "../part.ts"
import { receiptView } from "../views/receipt.ts"
import { askOwn } from "./own-api.ts"

export function ownReceipt(visit: Visit, id: string): HTMLElement {
  const made = part(visit, {
    class: "receipt",
    content: async (signal) => receiptOf(await askOwn<Receipt>(`/calls/${encodeURIComponent(id)}`, signal)),
  })
  return view("Receipt", el("a", { href: "#/" }, "All calls"), copyable(id, "Call id"), made.element)
}

function receiptOf(call: Receipt): HTMLElement {
  const { failure, ending, basis, notes, tags } = call
  const entry = entriesOf(Receipt, call)
  return receiptView(
    { ...call, started_at: call.held_at },
    [
      ...entry.each("held", "charge", "overage"),
      call.refunded === "0" ? null : entry("refunded"),
      entry("basis", call.charge === null ? none() : basisWords(basis)),
    ],
    [
      ...entry.each("model", "operation", "session_id", "end_user"),
      ...Object.entries(tags).map(([name, value]) => entry("tags", `${name}=${value}`)),
      entry("ending", ending === null ? none() : endingWords(ending)),
      entry("failure", failure === null ? "none" : failureWords(failure)),
      ...notes.map((note) => entry("notes", noteWords(note))),
    ],
  )
}

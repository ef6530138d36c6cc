import { Receipt } from "../../../wire/receipt.ts"
import { receiptSteps } from "../../receipt-lines.ts"
import { basisWords, endingWords, failureWords, noteWords, stateWords } from "../../words.ts"
import { type Child, el } from "../element.ts"
import { chip, copyable, detail, entriesOf, failureChip, none } from "../formats.ts"
import { part, type Visit, view } from "../part.ts"
import { charge, stepOf } from "../views/receipt.ts"
import { askOwn } from "./own-api.ts"

/** The receipt of a call of the account. */
export function ownReceipt(visit: Visit, id: string): HTMLElement {
  const made = part(visit, {
    title: null,
    class: "receipt",
    content: async (signal) => receiptOf(await askOwn<Receipt>(`/calls/${encodeURIComponent(id)}`, signal)),
  })
  return view("Receipt", el("a", { href: "#/" }, "All calls"), copyable(id, "Call id"), made.element)
}

function receiptOf(call: Receipt): HTMLElement {
  const { state, failure, ending, basis, notes, tags } = call
  const entry = entriesOf(Receipt, call)
  const section = (title: string, ...content: readonly Child[]) =>
    el("section.card", { "aria-label": title }, el("h2", title), ...content)
  const steps = receiptSteps({ ...call, started_at: call.held_at })
  return el(
    "div",
    el("p.verdict", chip(state), " ", failure === null ? null : failureChip(failure), " ", stateWords(state)),
    section("Timeline", el("ol.timeline", ...steps.map((step) => stepOf(step, call)))),
    el(
      "div.pair",
      section(
        "Money",
        detail("facts", [
          entry("held"),
          entry("charge"),
          entry("overage"),
          call.refunded === "0" ? null : entry("refunded"),
          entry("basis", call.charge === null ? none() : basisWords(basis)),
        ]),
      ),
      section(
        "Facts",
        detail("facts", [
          entry("model"),
          entry("operation"),
          entry("session_id"),
          entry("end_user"),
          ...Object.entries(tags).map(([name, value]) => entry("tags", `${name}=${value}`)),
          entry("ending", ending === null ? none() : endingWords(ending)),
          entry("failure", failure === null ? "none" : failureWords(failure)),
          ...notes.map((note) => entry("notes", noteWords(note))),
        ]),
      ),
    ),
    call.lines.length === 0 ? null : section("Charge", ...charge(call)),
  )
}

import type { AccountBody } from "../../../wire/admin.ts"
import { GrantBody } from "../../../wire/credit-bodies.ts"
import { creditKinds } from "../../../wire/credits.ts"
import { ask, type ListBody, ownId, tell } from "../admin-api.ts"
import { type Child, el, named } from "../element.ts"
import { choices, fieldsOf, filled, openDialog, REASON, rowActions } from "../form.ts"
import { callLink, none, usd } from "../formats.ts"
import type { ViewPart, Visit } from "../part.ts"
import { columnsOf, list } from "../table.ts"

const CREDITS = 20

/** The credits of an account, and what is left of each (D95). */
export function credits(visit: Visit, account_id: string, done: () => void): ViewPart {
  const column = columnsOf(GrantBody)
  return list(visit, {
    title: "Credits",
    columns: [
      ...column.each("created_at", "amount", "left", "kind", "priority", "effective_at", "expires_at"),
      column("source_ref"),
      column("call_id", ({ call_id }) => (call_id === null ? none() : callLink(call_id))),
      column("reason"),
      ["Actions", (credit) => voiding(credit, done), "right"],
    ],
    empty: "No credits yet.",
    load: (signal) => ask<ListBody<GrantBody>>(`/accounts/${account_id}/credits?limit=${CREDITS}`, signal),
    below: ({ next }) => next !== null && el("p.quiet", `Only the newest ${CREDITS} are shown.`),
  })
}

function voiding({ id, amount, left }: GrantBody, done: () => void): Child {
  if (left === "0") return none()
  const [button = none()] = rowActions(`the credit of ${amount} USD`, done, {
    Void: () => ({
      title: "Void credit",
      text: el(
        "p",
        "Takes back ",
        usd(left),
        " of ",
        usd(amount),
        ". Open calls can still spend what they hold of it.",
      ),
      fields: [REASON],
      is_dangerous: true,
      act: (values) => tell("POST", `/credits/${id}/void`, filled(values)),
    }),
  })
  return button
}

export function addCredit({ id: account_id, name }: AccountBody, done: () => void): void {
  const id = ownId()
  const field = fieldsOf(GrantBody)
  openDialog({
    title: "Add credit",
    text: el("p", "Add credit to ", named(name), "."),
    fields: [
      field("amount", "For example 25 or 0.50. A negative amount is a correction."),
      REASON,
      field("kind", undefined, [["", "as usual"], ...choices(creditKinds)]),
      field("priority", "Optional. 0 to 100: calls spend the smallest first. The default is 50."),
      field("effective_at", "Optional. When it comes to the balance, in UTC."),
      field("expires_at", "Optional. When what is left expires, in UTC."),
      field("source_ref", "Optional. The id of a payment, which is credited once."),
    ],
    submit: "Add credit",
    act: ({ priority, ...values }) =>
      tell("POST", `/accounts/${account_id}/credits`, {
        id,
        ...filled(values),
        ...(priority ? { priority: Number(priority) } : {}),
      }),
    done,
  })
}

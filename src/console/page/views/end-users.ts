import { type OperatorUsageReport, OperatorUsageSums } from "../../../wire/usage-report.ts"
import { idIn } from "../../fragment.ts"
import { ask, tell } from "../admin-api.ts"
import { button, type Child, el, named, rowButton } from "../element.ts"
import { openDialog } from "../form.ts"
import { callsLink, none } from "../formats.ts"
import type { ViewPart, Visit } from "../part.ts"
import { columnsOf, list } from "../table.ts"

type EndUserRow = OperatorUsageReport["data"][number]

/** The end users of an account, and what their calls were charged (D94). */
export function endUsers(visit: Visit, account_id: string): ViewPart {
  const reload = () => void made.load()
  const column = columnsOf(OperatorUsageSums)
  const made = list(visit, {
    title: "End users, last 30 days",
    tools: button("Forget an end user", () => forget(account_id, "", null, reload)),
    label: "End users",
    key: ({ group }: EndUserRow) => group,
    columns: [
      ["End user", nameLink],
      ...column.each("calls", "charge"),
      ["Actions", (user) => forgetting(user, account_id, reload), "right"],
    ],
    empty: "No calls of the last 30 days name an end user.",
    async load(signal) {
      const { data, left_out } = await ask<OperatorUsageReport>(
        `/usage?account=${account_id}&by=end_user`,
        signal,
      )
      return { data: data.filter(({ group }) => group !== ""), left_out }
    },
    below: ({ left_out }) => left_out > 0 && el("p.quiet", "Only those with the highest charges are shown."),
  })
  return made
}

/** The group of those that have no row of their own has no id. */
function nameLink({ group, name }: EndUserRow): Child {
  const shown = named(name ?? group)
  return idIn(group) === null ? shown : callsLink({ end_user: group }, shown)
}

function forgetting({ group, name }: EndUserRow, account_id: string, done: () => void): Child {
  if (name === null) return none()
  return rowButton("Forget", name, () => forget(account_id, group, name, done))
}

const END_USER = { name: "end_user", label: "End user", hint: "The name that clients send, or the id." }

/** Asks for the end user if it is not known. */
function forget(account_id: string, end_user: string, name: string | null, done: () => void): void {
  openDialog({
    title: "Forget end user",
    text: el(
      "p",
      "Removes the name",
      ...(name === null ? [""] : [" ", named(name)]),
      " from the ledger. Calls, charges and sums keep the id.",
    ),
    fields: name === null ? [END_USER] : [],
    submit: "Forget",
    is_dangerous: true,
    act: (values) => tell("POST", `/accounts/${account_id}/forget-end-user`, { end_user, ...values }),
    done,
  })
}

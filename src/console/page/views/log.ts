import { ChangeBody } from "../../../wire/operators.ts"
import { isObject } from "../../../wire/usage.ts"
import { withQuery } from "../../fragment.ts"
import { ask, type ListBody } from "../admin-api.ts"
import { el, named } from "../element.ts"
import { type FormField, filterForm, filterIn } from "../form.ts"
import { chip, moment, none } from "../formats.ts"
import { type Visit, view } from "../part.ts"
import { columnsOf, list, pages } from "../table.ts"

const FILTERS: readonly FormField[] = [
  { name: "actor", label: "Actor" },
  { name: "resource", label: "Resource id" },
  { name: "from", label: "From (UTC)", kind: "time" },
]

const UNKNOWN =
  "The gateway died, or the request failed: the change may have been made. Look at the resource."

/** The changes of operators (D102). */
export function log(visit: Visit): HTMLElement {
  const { query } = visit.address
  const { after = "" } = query
  const filter = filterIn(FILTERS, query)
  const column = columnsOf(ChangeBody)
  const found = list(visit, {
    label: "Log",
    columns: [
      column("at", ({ at }) => moment(at)),
      ...column.each("actor", "role", "address"),
      column(
        "route",
        ({ method, route }) => `${method} ${route.replace("/admin/", "").replaceAll("/:id", "")}`,
      ),
      column("resource_id", ({ resource_id, made_id }) => resource_id ?? made_id ?? none()),
      ["Change", (entry) => named(changedIn(entry))],
      column("reason"),
      column("outcome", ({ outcome }) => chip(outcome, outcome === "unknown" ? UNKNOWN : outcome)),
    ],
    empty: "No changes match these filters.",
    load: (signal) => ask<ListBody<ChangeBody>>(withQuery("/log", { ...filter, after, limit: "50" }), signal),
    below: (page) => pages("log", filter, after, page),
  })
  return view("Log", null, el("div.card", filterForm("log", FILTERS, filter)), found.element)
}

/** Fields with their values before and after; of something new, what was asked for. */
function changedIn({ request, before, after }: ChangeBody): string {
  if (!isObject(before) || !isObject(after) || before.id !== after.id) return JSON.stringify(request ?? {})
  const text = (value: unknown) => JSON.stringify(value ?? null)
  const fields = Object.keys(after).filter((name) => text(before[name]) !== text(after[name]))
  return fields.map((name) => `${name}: ${text(before[name])} → ${text(after[name])}`).join("; ")
}

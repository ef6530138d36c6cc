import { Elysia } from "elysia"
import { pageOf } from "../../wire/admin-query.ts"
import { ChangeBody, LogQuery } from "../../wire/operators.ts"
import { changeBody, pageBody } from "../record-bodies.ts"
import { keyListed, ofOperators } from "../reference/examples.ts"
import { page } from "../reference/operation.ts"
import type { Operators } from "./operators.ts"

/** `/admin/log`: the changes that operators made (D102). */
export function operatorLogRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-log" }).get(
    "/log",
    async ({ query }) => {
      const { actor, resource: resource_id, from } = query
      return pageBody(await ledger.listChanges({ actor, resource_id, from }, pageOf(query)), changeBody)
    },
    ofOperators({
      query: LogQuery,
      response: { 200: page("changes", ChangeBody, example) },
      operationId: "listChanges",
      tag: "Operators",
      summary: "List the changes of operators",
      description:
        "Lists the requests of operators that changed something, newest first: who, from where, what, before and after, and why. Entries cannot be changed. An entry is written before its change runs, so a change without an entry does not exist. A reason is the `reason` of the body, or the header `x-tollgate-reason`.",
    }),
  )
}

const example: ChangeBody = {
  id: "019f8b1c-aaaa-7000-8d21-6b0f4a9c3e17",
  at: "2026-11-26T09:30:00.000Z",
  actor: "Ann",
  operator_id: "019f8b1c-9999-7000-8d21-6b0f4a9c3e17",
  role: "support",
  address: "192.0.2.7",
  forwarded_for: null,
  method: "PATCH",
  route: "/admin/keys/:id",
  resource_id: keyListed.id,
  made_id: keyListed.id,
  reason: "Ticket 4711",
  request: { suspended: true },
  before: keyListed,
  after: { ...keyListed, suspended: true },
  status: 200,
  outcome: "done",
}

import { Elysia } from "elysia"
import { endUserNames } from "../../admission/end-user.ts"
import { GatewayError } from "../../errors.ts"
import type { Archive } from "../../ledger/archive/archive.ts"
import { CallBody } from "../../wire/admin.ts"
import { CallsQuery, pageOf } from "../../wire/admin-query.ts"
import { pathId } from "../../wire/parameter.ts"
import { callBody, pageBody, refundedCallBody } from "../record-bodies.ts"
import { answer, errorOf, page } from "../reference/operation.ts"
import { NO_CALL, ofLedger } from "../reference/routes.ts"
import type { Operators } from "./operators.ts"

/** `/admin/calls`: the calls that held money, and their outcomes. */
export function callRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-calls" })
    .get(
      "/calls",
      async ({ query }) => {
        const { account, key, tag, end_user, ...filter } = query
        const end_users = end_user === undefined ? undefined : endUserNames(end_user)
        const calls = { ...filter, account_id: account, key_id: key, tags: tag, end_users }
        return pageBody(await ledger.listCalls(calls, pageOf(query)), callBody)
      },
      ofLedger({
        query: CallsQuery,
        response: { 200: page("calls", CallBody) },
        operationId: "listCalls",
        summary: "List calls",
        description:
          "Lists calls that held money, newest first. Filters are combined with AND. One page scans at most 100,000 calls, so a filter that matches few calls can return fewer than `limit`, or none, and still have a `next`. `GET /admin/refusals` counts refused calls. Token counts are in the metrics only.",
        invalid: "state",
      }),
    )
    .get(
      "/calls/:id",
      async ({ params: { id } }) => {
        const call = await ledger.getCall(id)
        if (call !== null) return refundedCallBody(call, await ledger.refundedOf(id))
        const archived = await ledger.archiveOf(id)
        if (archived === null) throw errorOf(NO_CALL)
        throw new GatewayError("archived", { message: archivedCall(archived) })
      },
      ofLedger({
        params: pathId("The call's id."),
        response: { 200: answer("The call.", CallBody, { call: { refunded: "0" } }) },
        operationId: "getCall",
        summary: "Get a call",
        description: "The id of a call is the `x-request-id` of its response.",
        errors: [
          NO_CALL,
          {
            code: "archived",
            message: archivedCall({ month: "2020-01", archive: "s3://backups/2020-01.gz" }),
          },
        ],
      }),
    )
}

export function archivedCall({ month, archive }: Archive): string {
  const name = month.slice(0, 7)
  const place = archive ?? `tables tollgate.holds_${name.replace("-", "_")} and so on`
  return `The calls of ${name} are archived: ${place}.`
}

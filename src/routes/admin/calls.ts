import { Elysia } from "elysia"
import { GatewayError } from "../../errors.ts"
import { getCall, listCalls } from "../../ledger/reports/calls.ts"
import { CallBody, listOf } from "../../wire/admin.ts"
import { parseCallsQuery } from "../../wire/admin-query.ts"
import { failures, states } from "../../wire/call.ts"
import { callBody } from "../call-body.ts"
import { operation } from "../openapi.ts"
import { ask } from "./books.ts"
import { answer, type Operators, pathId, queryOf } from "./operators.ts"
import {
  callExample,
  ERRORS,
  fieldFault,
  filterParameter,
  idParameter,
  NO_CALL,
  pageParameters,
} from "./reference.ts"

/** `/admin/calls`: what became of every call that held money. */
export function callRoutes(operators: Operators) {
  const { database } = operators
  return new Elysia({ name: "admin-calls" })
    .get(
      "/calls",
      async ({ request }) => {
        const { filter, page } = parseCallsQuery(queryOf(request))
        const { data, next } = await ask(operators, listCalls(database, filter, page))
        return answer({ data: data.map(callBody), next })
      },
      { detail: listing },
    )
    .get(
      "/calls/:id",
      async ({ params }) => {
        const call = await ask(operators, getCall(database, pathId(params.id)))
        if (call === null) throw new GatewayError("not_found", { message: "No call has this id." })
        return answer(callBody(call))
      },
      { detail: reading },
    )
}

const listing = operation({
  operationId: "listCalls",
  tag: "Ledger",
  summary: "List calls",
  description:
    "Lists calls that held money, newest first. Filters are combined with AND. One page scans at most 100,000 calls, so a filter that matches few calls can return fewer than `limit`, or none, and still have a `next`. Rejected requests and token counts are in the metrics only.",
  credentials: ["adminToken"],
  parameters: [
    filterParameter("account", "Only calls of this account.", { format: "uuid" }),
    filterParameter("key", "Only calls made with this key.", { format: "uuid" }),
    filterParameter("model", "Only calls to this model, by the name that clients use."),
    filterParameter("state", "Only calls in this state.", { enum: [...states] }),
    filterParameter("failure", "Only calls with this failure.", { enum: [...failures] }),
    filterParameter(
      "from",
      "Only calls that started at or after this time: an RFC 3339 time, or a day in UTC.",
    ),
    filterParameter("to", "Only calls that started before this time."),
    ...pageParameters,
  ],
  answers: {
    200: {
      description: "A page of calls.",
      json: { schema: listOf(CallBody), examples: { calls: { data: [callExample], next: null } } },
    },
  },
  errors: [fieldFault("state", `one of ${states.join(", ")}`), ...ERRORS],
})

const reading = operation({
  operationId: "getCall",
  tag: "Ledger",
  summary: "Get a call",
  description: "The id of a call is the `x-request-id` of its response.",
  credentials: ["adminToken"],
  parameters: [idParameter("The call's id.")],
  answers: { 200: { description: "The call.", json: { schema: CallBody, examples: { call: callExample } } } },
  errors: [NO_CALL, ...ERRORS],
})

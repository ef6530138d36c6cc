import { Elysia } from "elysia"
import { GatewayError } from "../../errors.ts"
import { getCall, listCalls } from "../../ledger/reports/calls.ts"
import { CallBody, listOf } from "../../wire/admin.ts"
import { parseCallsQuery } from "../../wire/admin-query.ts"
import { failures, states } from "../../wire/call.ts"
import { callBody } from "../call-body.ts"
import { operation } from "../openapi.ts"
import { ask, askLong } from "./books.ts"
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
        const { data, next } = await askLong(operators, listCalls(database, filter, page))
        return answer({ data: data.map(callBody), next })
      },
      { detail: listing },
    )
    .get(
      "/calls/:id",
      async ({ params }) => {
        const call = await ask(operators, getCall(database, pathId(params.id)))
        if (call === null) throw new GatewayError("not_found", { message: "There is no call of this id." })
        return answer(callBody(call))
      },
      { detail: reading },
    )
}

const listing = operation({
  operationId: "listCalls",
  tag: "Books",
  summary: "List calls",
  description:
    "Calls that held money, newest first; several filters narrow together. A page looks at 100,000 calls at most, so one that looks for something rare may hold fewer calls than `limit`, even none, and yet have a `next`. Refused requests and token counts are in the metrics.",
  credentials: ["adminToken"],
  parameters: [
    filterParameter("account", "Calls of this account.", { format: "uuid" }),
    filterParameter("key", "Calls with this key.", { format: "uuid" }),
    filterParameter("model", "Calls to this model, as the client named it."),
    filterParameter("state", "Calls in this state.", { enum: [...states] }),
    filterParameter("failure", "Calls that went wrong this way.", { enum: [...failures] }),
    filterParameter(
      "from",
      "Calls that were held then or later, by the time in their id: a time, or a day in UTC.",
    ),
    filterParameter("to", "Calls that were held earlier."),
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
  tag: "Books",
  summary: "Read a call",
  description: "The id is the `x-request-id` that the client saw.",
  credentials: ["adminToken"],
  parameters: [idParameter("The call's id.")],
  answers: { 200: { description: "The call.", json: { schema: CallBody, examples: { call: callExample } } } },
  errors: [NO_CALL, ...ERRORS],
})

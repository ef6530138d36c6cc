import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { hashOf, makeKey, OPERATOR_PREFIX } from "../../admission/key.ts"
import { checkExpiry, KeyBody } from "../../wire/admin.ts"
import { PageQuery, pageOf } from "../../wire/admin-query.ts"
import { invalidField, invalidRequest } from "../../wire/fault.ts"
import {
  ChangeBody,
  EndedSessionsBody,
  LogQuery,
  NewOperator,
  OperatorBody,
  OperatorRotation,
  OperatorWithTokenBody,
  SessionsEnd,
} from "../../wire/operators.ts"
import { changeBody, operatorBody, pageBody } from "../record-bodies.ts"
import { EXAMPLE_ID, exampleOf } from "../reference/example.ts"
import { accepted, answer, errorOf, found, page, shown } from "../reference/operation.ts"
import { NO_OPERATOR, ofOne, ofPeople } from "../reference/routes.ts"
import { NAMES } from "./authorize.ts"
import type { Operators } from "./operators.ts"

/** `/admin/operators`, people and programs with tokens of their own (D101), `/admin/log`, their changes (D102), and `/admin/sessions/end`. */
export function operatorRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-operators" })
    .post(
      "/operators",
      async ({ body: { expires_at = null, ...order }, status }) => {
        checkExpiry(expires_at, Date.now())
        if (NAMES.includes(order.name)) throw invalidField("name", `a name other than ${NAMES.join(" and ")}`)
        const token = makeKey(OPERATOR_PREFIX)
        const made = accepted(
          await ledger.createOperator({ ...order, expires_at, token_hash: hashOf(token) }),
          { conflict: () => invalidRequest("Another operator has this name. Nothing was changed.", "name") },
        )
        return made.outcome === "created"
          ? status(201, { ...operatorBody(made.operator), token })
          : status(200, operatorBody(made.operator))
      },
      ofPeople({
        body: shown(NewOperator, {
          person: { name: "Ann", role: "billing", expires_at: EXPIRES },
          program: { name: "prometheus", role: "read" },
        }),
        response: {
          200: answer("An operator with this id already exists. Nothing was changed.", OperatorBody, {
            program,
          }),
          201: answer("The operator. Store the token: it is not shown again.", OperatorWithTokenBody, {
            person,
            program,
          }),
        },
        operationId: "createOperator",
        summary: "Create an operator",
        description:
          "Makes a token for a person or a program. It is sent like the admin token, and opens sessions of the console. Only this response shows it: the database stores its SHA-256 hash. The name stands in the log beside each change.",
        invalid: "role",
      }),
    )
    .get(
      "/operators",
      async ({ query }) => pageBody(await ledger.listOperators(pageOf(query)), operatorBody),
      ofPeople({
        query: PageQuery,
        response: { 200: page("operators", OperatorBody, person, program) },
        operationId: "listOperators",
        summary: "List operators",
        description: "Lists operators, newest first, including those whose token is revoked or expired.",
      }),
    )
    .post(
      "/operators/:id/rotate",
      async ({ params: { id }, body: { expires_at } }) => {
        checkExpiry(expires_at, Date.now())
        const token = makeKey(OPERATOR_PREFIX)
        const rotated = await ledger.rotateOperator(id, { token_hash: hashOf(token), expires_at })
        return { ...operatorBody(found(rotated, NO_OPERATOR)), token }
      },
      ofOne("operator", {
        body: shown(OperatorRotation, { rotate: {}, longer: { expires_at: EXPIRES } }),
        response: {
          200: answer("The operator with the new token.", OperatorWithTokenBody, {
            rotate: program,
            longer: { ...program, expires_at: EXPIRES },
          }),
        },
        operationId: "rotateOperator",
        summary: "Make a new token for an operator",
        description:
          "From then on the previous token gets a 401, and its console sessions have ended. The role stays. So does the expiry, unless the request has one.",
        invalid: "expires_at",
      }),
    )
    .delete(
      "/operators/:id",
      async ({ params: { id }, status }) => {
        if (!(await ledger.revokeOperator(id))) throw errorOf(NO_OPERATOR)
        return status(204, undefined)
      },
      ofOne("operator", {
        response: { 204: answer("The token is revoked.", Type.Void()) },
        operationId: "revokeOperator",
        summary: "Revoke the token of an operator",
        description:
          "Every request that arrives after this response gets a 401, also in a session of the console. The operator stays in the list and in the log. Revoking a revoked token changes nothing.",
      }),
    )
    .post(
      "/sessions/end",
      async ({ body: { actor } }) => ({ actor, ended: await ledger.endSessionsOf(actor) }),
      ofPeople({
        body: shown(SessionsEnd, {
          person: { actor: "oidc:ann@example.com" },
          configured: { actor: "configured" },
        }),
        response: {
          200: answer("How many sessions were open.", EndedSessionsBody),
        },
        operationId: "endSessions",
        summary: "End the console's sessions of an operator or a person",
        description:
          "Every request in one of these sessions gets a 401 from then on, at every gateway. The operator can sign in again: to prevent it, first revoke the token, or remove the person's role at the OpenID provider.",
        invalid: "actor",
      }),
    )
    .get(
      "/log",
      async ({ query }) => {
        const { actor, resource: resource_id, from } = query
        return pageBody(await ledger.listChanges({ actor, resource_id, from }, pageOf(query)), changeBody)
      },
      ofPeople({
        query: LogQuery,
        response: { 200: page("changes", ChangeBody, changeExample) },
        operationId: "listChanges",
        summary: "List the changes of operators",
        description:
          "Lists the requests of operators that changed something, newest first: who, from where, what, before and after, and why. Entries cannot be changed. Each is written before its change runs, so no change is without an entry. A reason is the `reason` of the body, or the header `x-tollgate-reason`.",
      }),
    )
}

const EXPIRES = "2027-06-30T23:59:59Z"
const person = {
  role: "billing",
  expires_at: EXPIRES,
  last_used_at: "2026-11-26T09:30:00.000Z",
} as const
const program = { name: "prometheus", role: "read", last_used_at: "2026-11-26T09:30:00.000Z" } as const

const key = exampleOf(KeyBody)
const changeExample = {
  operator_id: EXAMPLE_ID,
  role: "support",
  address: "192.0.2.7",
  method: "PATCH",
  route: "/admin/keys/:id",
  resource_id: key.id,
  made_id: key.id,
  reason: "Ticket 4711",
  request: { suspended: true },
  before: key,
  after: { ...key, suspended: true },
  status: 200,
  outcome: "done",
} as const

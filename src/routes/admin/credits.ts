import { Elysia } from "elysia"
import { GatewayError } from "../../errors.ts"
import type { CreditResult } from "../../ledger/accounts/credits.ts"
import { CreditBody, CreditedBody, listOf, NewCredit } from "../../wire/admin.ts"
import { PageQuery, pageOf } from "../../wire/admin-query.ts"
import { pathId } from "../../wire/parameter.ts"
import { accountBody, creditBody } from "../record-bodies.ts"
import {
  accountExample,
  creditExample,
  NO_ACCOUNT,
  ofOperators,
  unknownOutcome,
} from "../reference/examples.ts"
import { answer, shown } from "../reference/operation.ts"
import { noAccount } from "./accounts.ts"
import type { Operators } from "./operators.ts"

/** `/admin/accounts/{id}/credits`: the credits of an account. */
export function creditRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-credits" })
    .post(
      "/accounts/:id/credits",
      async ({ params, body: { id, amount: amount_nano, reason = null }, status }) => {
        const result = made(await ledger.credit({ id, account_id: params.id, amount_nano, reason }))
        const body = { ...creditBody(result.credit), account: accountBody(result.account) }
        return status(result.outcome === "credited" ? 201 : 200, body)
      },
      crediting,
    )
    .get(
      "/accounts/:id/credits",
      async ({ params, query }) => {
        const found = await ledger.listCredits(params.id, pageOf(query))
        if (found === null) throw noAccount()
        return { data: found.data.map(creditBody), next: found.next }
      },
      listing,
    )
}

/** The credit in the journal, or the error if none was written. */
function made(result: CreditResult) {
  switch (result.outcome) {
    case "credited":
    case "known":
      return result
    case "no_account":
      throw noAccount()
    case "conflict":
      throw new GatewayError("invalid_request", {
        message: "Another credit already has this id. Nothing was changed. Use a new id for a new credit.",
        param: "id",
      })
    case "out_of_range":
      throw new GatewayError("invalid_request", {
        message: "This amount would take the balance out of the supported range. Nothing was changed.",
        param: "amount",
      })
  }
}

const examples = { credit: { ...creditExample, account: accountExample } }

const crediting = ofOperators({
  params: pathId("The account's id."),
  body: shown(NewCredit, {
    credit: { id: creditExample.id, amount: "10", reason: creditExample.reason },
    correction: { amount: "-2.50", reason: "Credited twice by mistake" },
  }),
  response: {
    200: answer("This credit was made earlier. Nothing was changed.", CreditedBody, examples),
    201: answer("The account was credited.", CreditedBody, examples),
  },

  operationId: "creditAccount",
  tag: "Accounts",
  summary: "Credit an account",
  description:
    "Send your own `id` to make the request safe to retry: a repeat with the same id changes nothing and returns 200 with the credit, and a different amount or account with the same id is an error. A negative amount is a correction and can make the balance negative. If the database does not respond (503), the error has the `id` to retry with.",
  invalid: "amount",
  errors: [NO_ACCOUNT, unknownOutcome(creditExample.id)],
})

const listing = ofOperators({
  params: pathId("The account's id."),
  query: PageQuery,
  response: {
    200: answer("A page of credits.", listOf(CreditBody), {
      credits: { data: [creditExample], next: null },
    }),
  },

  operationId: "listCredits",
  tag: "Accounts",
  summary: "List an account's credits",
  description: "Lists credits and corrections, newest first.",
  errors: [NO_ACCOUNT],
})

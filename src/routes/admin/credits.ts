import { Elysia } from "elysia"
import { GatewayError } from "../../errors.ts"
import { nextId } from "../../id.ts"
import { type Credit, type CreditResult, credit, listCredits } from "../../ledger/accounts/credits.ts"
import { printUsd } from "../../money.ts"
import { CreditBody, CreditedBody, listOf, NewCredit, parseNewCredit } from "../../wire/admin.ts"
import { parsePage } from "../../wire/admin-query.ts"
import { printTime } from "../../wire/time.ts"
import { operation } from "../openapi.ts"
import { accountBody, existingAccount, noAccount } from "./accounts.ts"
import { ask } from "./books.ts"
import { answer, jsonBody, type Operators, pathId, queryOf } from "./operators.ts"
import {
  accountExample,
  BODY_ERRORS,
  creditExample,
  ERRORS,
  fieldFault,
  idParameter,
  NO_ACCOUNT,
  PAGE_FAULT,
  pageParameters,
  unknownOutcome,
} from "./reference.ts"

/** `/admin/accounts/{id}/credits`: the money put on an account. */
export function creditRoutes(operators: Operators) {
  const { database } = operators
  return new Elysia({ name: "admin-credits" })
    .post(
      "/accounts/:id/credits",
      async ({ request, params }) => {
        const account_id = pathId(params.id)
        const { id, amount_nano, reason } = parseNewCredit(await jsonBody(request, operators))
        const order = { id: id ?? nextId(), account_id, amount_nano, reason }
        return credited(await ask(operators, credit(database, order), { id: order.id }))
      },
      { parse: "none", detail: crediting },
    )
    .get(
      "/accounts/:id/credits",
      async ({ request, params }) => {
        const account_id = pathId(params.id)
        const page = parsePage(queryOf(request))
        await existingAccount(operators, account_id)
        const { data, next } = await ask(operators, listCredits(database, account_id, page))
        return answer({ data: data.map(creditBody), next })
      },
      { detail: listing },
    )
}

function credited(result: CreditResult): Response {
  switch (result.outcome) {
    case "credited":
    case "known": {
      const body: CreditedBody = { ...creditBody(result.credit), account: accountBody(result.account) }
      return answer(body, result.outcome === "credited" ? 201 : 200)
    }
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

function creditBody({ id, amount_nano, reason, created_at }: Credit): CreditBody {
  return { id, amount: printUsd(amount_nano), reason, created_at: printTime(created_at) }
}

const examples = { credit: { ...creditExample, account: accountExample } }

const crediting = operation({
  operationId: "creditAccount",
  tag: "Accounts",
  summary: "Credit an account",
  description:
    "Send your own `id` to make the request safe to retry: a repeat with the same id changes nothing and returns 200 with the credit, and a different amount or account with the same id is an error. A negative amount is a correction and can make the balance negative. If the database does not respond (503), the error has the `id` to retry with.",
  credentials: ["adminToken"],
  parameters: [idParameter("The account's id.")],
  body: {
    schema: NewCredit,
    examples: {
      credit: { id: creditExample.id, amount: "10", reason: creditExample.reason },
      correction: { amount: "-2.50", reason: "Credited twice by mistake" },
    },
  },
  answers: {
    201: { description: "The account was credited.", json: { schema: CreditedBody, examples } },
    200: {
      description: "This credit was made earlier. Nothing was changed.",
      json: { schema: CreditedBody, examples },
    },
  },
  errors: [
    ...BODY_ERRORS,
    fieldFault(
      "amount",
      "USD as a decimal string other than 0, with at most 9 digits before and 9 after the point",
    ),
    NO_ACCOUNT,
    ...ERRORS,
    unknownOutcome(creditExample.id),
  ],
})

const listing = operation({
  operationId: "listCredits",
  tag: "Accounts",
  summary: "List an account's credits",
  description: "Lists credits and corrections, newest first.",
  credentials: ["adminToken"],
  parameters: [idParameter("The account's id."), ...pageParameters],
  answers: {
    200: {
      description: "A page of credits.",
      json: { schema: listOf(CreditBody), examples: { credits: { data: [creditExample], next: null } } },
    },
  },
  errors: [PAGE_FAULT, NO_ACCOUNT, ...ERRORS],
})

import { Elysia } from "elysia"
import { GatewayError } from "../../errors.ts"
import { type Account, createAccount, getAccount, listAccounts } from "../../ledger/accounts.ts"
import { printUsd } from "../../money.ts"
import { AccountBody, listOf, NewAccount, parseNewAccount } from "../../wire/admin.ts"
import { parsePage } from "../../wire/admin-query.ts"
import { printTime } from "../../wire/time.ts"
import { operation } from "../openapi.ts"
import { ask } from "./books.ts"
import { answer, jsonBody, type Operators, pathId, queryOf } from "./operators.ts"
import { accountExample, BODY_ERRORS, ERRORS, idParameter, pageParameters } from "./reference.ts"

/** `/admin/accounts`: who pays. */
export function accountRoutes(operators: Operators) {
  const { database } = operators
  return new Elysia({ name: "admin-accounts" })
    .post(
      "/accounts",
      async ({ request }) => {
        const { name } = parseNewAccount(await jsonBody(request, operators))
        return answer(accountBody(await ask(operators, createAccount(database, { name }))), 201)
      },
      { parse: "none", detail: creating },
    )
    .get(
      "/accounts",
      async ({ request }) => {
        const { data, next } = await ask(operators, listAccounts(database, parsePage(queryOf(request))))
        return answer({ data: data.map(accountBody), next })
      },
      { detail: listing },
    )
    .get(
      "/accounts/:id",
      async ({ params }) => answer(accountBody(await existingAccount(operators, pathId(params.id)))),
      { detail: reading },
    )
}

/** The account, or 404. */
export async function existingAccount(operators: Operators, id: string): Promise<Account> {
  const account = await ask(operators, getAccount(operators.database, id))
  if (account === null) throw noAccount()
  return account
}

export function noAccount(): GatewayError {
  return new GatewayError("not_found", { message: "There is no account of this id." })
}

export function accountBody({ id, name, balance_nano, held_nano, created_at }: Account): AccountBody {
  return {
    id,
    name,
    balance: printUsd(balance_nano),
    held: printUsd(held_nano),
    available: printUsd(balance_nano - held_nano),
    created_at: printTime(created_at),
  }
}

const creating = operation({
  operationId: "createAccount",
  tag: "Accounts",
  summary: "Open an account",
  description: "An account starts with a balance of 0: its keys can do nothing before the first credit.",
  credentials: ["adminToken"],
  body: { schema: NewAccount, examples: { account: { name: "Acme" } } },
  answers: {
    201: {
      description: "The account.",
      json: {
        schema: AccountBody,
        examples: { account: { ...accountExample, balance: "0", held: "0", available: "0" } },
      },
    },
  },
  errors: [...BODY_ERRORS, ...ERRORS],
})

const listing = operation({
  operationId: "listAccounts",
  tag: "Accounts",
  summary: "List accounts",
  description: "All accounts, newest first.",
  credentials: ["adminToken"],
  parameters: pageParameters,
  answers: {
    200: {
      description: "A page of accounts.",
      json: { schema: listOf(AccountBody), examples: { accounts: { data: [accountExample], next: null } } },
    },
  },
  errors: ["invalid_request", ...ERRORS],
})

const reading = operation({
  operationId: "getAccount",
  tag: "Accounts",
  summary: "Read an account",
  description: "`available` is what new calls can still hold: the balance less what open calls hold.",
  credentials: ["adminToken"],
  parameters: [idParameter("The account's id.")],
  answers: {
    200: {
      description: "The account.",
      json: { schema: AccountBody, examples: { account: accountExample } },
    },
  },
  errors: ["not_found", ...ERRORS],
})

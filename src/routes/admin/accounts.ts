import { Elysia } from "elysia"
import { GatewayError } from "../../errors.ts"
import { ledgerTime, nextId } from "../../id.ts"
import {
  type Account,
  changeAccount,
  createAccount,
  getAccount,
  listAccounts,
} from "../../ledger/accounts/accounts.ts"
import { balanceAt, type PastBalance } from "../../ledger/reports/balance.ts"
import { printUsd } from "../../money.ts"
import {
  AccountBody,
  AccountChange,
  BalanceBody,
  listOf,
  NewAccount,
  parseAccountChange,
  parseNewAccount,
} from "../../wire/admin.ts"
import { parseBalanceQuery, parsePage } from "../../wire/admin-query.ts"
import { printTime } from "../../wire/time.ts"
import { operation } from "../openapi.ts"
import { ask, askLong } from "./books.ts"
import { answer, jsonBody, type Operators, pathId, queryOf } from "./operators.ts"
import {
  accountExample,
  BODY_ERRORS,
  ERRORS,
  fieldFault,
  idParameter,
  NO_ACCOUNT,
  PAGE_FAULT,
  pageParameters,
  unknownOutcome,
} from "./reference.ts"

/** `/admin/accounts`: who pays. */
export function accountRoutes(operators: Operators) {
  const { database } = operators
  return new Elysia({ name: "admin-accounts" })
    .post(
      "/accounts",
      async ({ request }) => {
        const { id, name } = parseNewAccount(await jsonBody(request, operators))
        const asked = { id: id ?? nextId(), name }
        const { outcome, account } = await ask(operators, createAccount(database, asked), { id: asked.id })
        return answer(accountBody(account), outcome === "created" ? 201 : 200)
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
    .get(
      "/accounts/:id/balance",
      async ({ request, params }) => {
        const id = pathId(params.id)
        const at = parseBalanceQuery(queryOf(request), ledgerTime())
        const past = await askLong(operators, balanceAt(database, id, at))
        if (past === null) throw noAccount()
        return answer(balanceBody(id, at, past))
      },
      { detail: readingBalance },
    )
    .patch(
      "/accounts/:id",
      async ({ request, params }) => {
        const id = pathId(params.id)
        const change = parseAccountChange(await jsonBody(request, operators))
        const account = await ask(operators, changeAccount(database, id, change))
        if (account === null) throw noAccount()
        return answer(accountBody(account))
      },
      { parse: "none", detail: changing },
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

export function accountBody(account: Account): AccountBody {
  const { id, name, balance_nano, held_nano, suspended_at, created_at } = account
  return {
    id,
    name,
    balance: printUsd(balance_nano),
    held: printUsd(held_nano),
    available: printUsd(balance_nano - held_nano),
    suspended: suspended_at !== null,
    created_at: printTime(created_at),
  }
}

function balanceBody(account_id: string, at: Date, { balance_nano, held_nano }: PastBalance): BalanceBody {
  return {
    account_id,
    at: printTime(at),
    balance: printUsd(balance_nano),
    held: printUsd(held_nano),
    available: printUsd(balance_nano - held_nano),
  }
}

const creating = operation({
  operationId: "createAccount",
  tag: "Accounts",
  summary: "Open an account",
  description:
    "An account starts with a balance of 0: its keys can do nothing before the first credit. With an `id` of your own the request may be repeated: the second answer is a 200 with the account as it stands.",
  credentials: ["adminToken"],
  body: {
    schema: NewAccount,
    examples: { account: { name: "Acme" }, repeatable: { id: accountExample.id, name: "Acme" } },
  },
  answers: {
    200: {
      description: "The account of this id, which stood there before; nothing was changed.",
      json: { schema: AccountBody, examples: { account: accountExample } },
    },
    201: {
      description: "The account.",
      json: {
        schema: AccountBody,
        examples: { account: { ...accountExample, balance: "0", held: "0", available: "0" } },
      },
    },
  },
  errors: [
    ...BODY_ERRORS,
    fieldFault("name", "one line of 1 to 200 characters"),
    ...ERRORS,
    unknownOutcome(accountExample.id),
  ],
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
  errors: [PAGE_FAULT, ...ERRORS],
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
  errors: [NO_ACCOUNT, ...ERRORS],
})

const balanceExample: BalanceBody = {
  account_id: accountExample.id,
  at: "2026-11-01T00:00:00.000Z",
  balance: "12.5",
  held: "0.02",
  available: "12.48",
}

const readingBalance = operation({
  operationId: "getBalance",
  tag: "Accounts",
  summary: "Read what an account had at a moment",
  description:
    "What stands on the account now, without the entries that were made since. It reads all ends of calls since then, of all accounts: the longer ago, the longer it takes, at most 8 seconds. Before its first credit an account had 0.",
  credentials: ["adminToken"],
  parameters: [
    idParameter("The account's id."),
    {
      name: "at",
      in: "query",
      required: true,
      description:
        "The moment, by the ledger's clock: an RFC 3339 time, or a day, which stands for its midnight UTC. Not in the future.",
      schema: { type: "string" },
      example: "2026-11-01",
    },
  ],
  answers: {
    200: {
      description: "The balance of then, what open calls held, and what new calls could hold.",
      json: { schema: BalanceBody, examples: { balance: balanceExample } },
    },
  },
  errors: [fieldFault("at", "an RFC 3339 time or a day such as 2026-11-21"), NO_ACCOUNT, ...ERRORS],
})

const changing = operation({
  operationId: "changeAccount",
  tag: "Accounts",
  summary: "Rename or suspend an account",
  description:
    "What is left out stays. Every call that arrives after the answer to a suspension is refused with 403; calls that were admitted before go on, and receipts stay readable. Money can be put on a suspended account.",
  credentials: ["adminToken"],
  parameters: [idParameter("The account's id.")],
  body: {
    schema: AccountChange,
    examples: { suspend: { suspended: true }, resume: { suspended: false }, rename: { name: "Acme Ltd" } },
  },
  answers: {
    200: {
      description: "The account as it is now.",
      json: {
        schema: AccountBody,
        examples: { suspended: { ...accountExample, suspended: true }, active: accountExample },
      },
    },
  },
  errors: [...BODY_ERRORS, fieldFault("suspended", "true or false"), NO_ACCOUNT, ...ERRORS],
})

import { Elysia } from "elysia"
import { GatewayError } from "../../errors.ts"
import { ledgerTime, nextId } from "../../id.ts"
import {
  type AccountResult,
  changeAccount,
  createAccount,
  getAccount,
  listAccounts,
} from "../../ledger/accounts/accounts.ts"
import { balanceAt, type PastBalance } from "../../ledger/reports/balance.ts"
import { addBalances, mergePages } from "../../ledger/reports/merge.ts"
import { printUsd } from "../../money.ts"
import {
  AccountBody,
  AccountChange,
  BalanceBody,
  listOf,
  NewAccount as NewAccountBody,
} from "../../wire/admin.ts"
import { BalanceQuery, checkPast, PageQuery, pageOf } from "../../wire/admin-query.ts"
import { pathId } from "../../wire/parameter.ts"
import { printTime } from "../../wire/time.ts"
import {
  accountExample,
  BODY_ERRORS,
  ERRORS,
  fieldFault,
  NO_ACCOUNT,
  PAGE_FAULT,
  unknownOutcome,
} from "../docs/examples.ts"
import { answer, operation, shown } from "../openapi.ts"
import { accountBody } from "../record-bodies.ts"
import type { OperatedShard, Operators } from "./operators.ts"
import {
  askAll,
  askShard,
  find,
  liveAccount,
  noAccount,
  openShards,
  shardField,
  shardOfAccount,
} from "./shards.ts"

/** `/admin/accounts`: the accounts that pay for calls. */
export function accountRoutes(operators: Operators) {
  return new Elysia({ name: "admin-accounts" })
    .post(
      "/accounts",
      async ({ body: { id, name, margin, price_multiplier = margin }, status }) => {
        const account = { name, price_multiplier_bp: price_multiplier }
        const { outcome, ...made } =
          id === undefined ? await createNew(operators, account) : await createOnce(operators, id, account)
        const body = { ...accountBody(made.account), ...shardField(operators, made.shard) }
        return status(outcome === "created" ? 201 : 200, body)
      },
      creating,
    )
    .get(
      "/accounts",
      async ({ query }) => {
        const page = pageOf(query)
        const pages = await askAll(operators, async (database, shard) => {
          const { data, next } = await listAccounts(database, page)
          const in_shard = shardField(operators, shard)
          return { data: data.map((account) => ({ ...accountBody(account), ...in_shard })), next }
        })
        const { data, next } = mergePages(pages, page)
        return { data: [...data], next }
      },
      listing,
    )
    .get(
      "/accounts/:id",
      async ({ params: { id } }) => {
        const { shard, answer } = await liveAccount(operators, id)
        return { ...accountBody(answer), ...shardField(operators, shard) }
      },
      reading,
    )
    .get(
      "/accounts/:id/balance",
      async ({ params: { id }, query: { at } }) => {
        checkPast(at, ledgerTime())
        const balances = askAll(operators, (database) => balanceAt(database, id, at), {
          deadline_ms: operators.sums_deadline_ms,
        })
        const past = addBalances(await balances)
        if (past === null) throw noAccount()
        return balanceBody(id, at, past)
      },
      readingBalance,
    )
    .patch(
      "/accounts/:id",
      async ({ params: { id }, body: { margin, price_multiplier = margin, ...change } }) => {
        const shard = await shardOfAccount(operators, id)
        const account = await askShard(operators, shard, (database) =>
          changeAccount(database, id, { ...change, price_multiplier_bp: price_multiplier }),
        )
        if (account === null) throw noAccount()
        return { ...accountBody(account), ...shardField(operators, shard) }
      },
      changing,
    )
}

interface NewAccount {
  readonly name: string
  readonly price_multiplier_bp: number | undefined
}

type Made = AccountResult & { readonly shard: OperatedShard }

/** An account with an id of its own, in an open shard that answers. */
async function createNew(operators: Operators, account: NewAccount): Promise<Made> {
  const id = nextId()
  const [first, ...others] = openShards(operators, id)
  if (first === undefined) throw noneOpen()
  if (others.length === 0) return createIn(operators, first, id, account)
  const choices = [first, ...others]
  const answers = await Promise.allSettled(
    choices.map((shard) => askShard(operators, shard, (database) => getAccount(database, id))),
  )
  const chosen = choices.find((_, at) => answers[at]?.status === "fulfilled") ?? first
  return createIn(operators, chosen, id, account)
}

/** An account with an id of the operator's, which no other shard may have. */
async function createOnce(operators: Operators, id: string, account: NewAccount): Promise<Made> {
  const known =
    operators.shards.length === 1 ? null : await find(operators, (database) => getAccount(database, id))
  if (known !== null) return { outcome: "known", account: known.answer, shard: known.shard }
  const [chosen] = openShards(operators, id)
  if (chosen === undefined) throw noneOpen()
  return createIn(operators, chosen, id, account)
}

async function createIn(
  operators: Operators,
  shard: OperatedShard,
  id: string,
  account: NewAccount,
): Promise<Made> {
  const create = (database: OperatedShard["database"]) => createAccount(database, { id, ...account })
  return { ...(await askShard(operators, shard, create, { fields: { id } })), shard }
}

function noneOpen(): GatewayError {
  return new GatewayError("invalid_request", {
    message: "No shard is open for new accounts. Set `open: true` for one of them in the configuration.",
  })
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

const creating = {
  body: shown(NewAccountBody, {
    account: { name: "Acme" },
    repeatable: { id: accountExample.id, name: "Acme" },
  }),
  response: {
    200: answer("An account with this id already exists. Nothing was changed.", AccountBody, {
      account: accountExample,
    }),
    201: answer("The account.", AccountBody, {
      account: { ...accountExample, balance: "0", held: "0", available: "0" },
    }),
  },
  detail: operation({
    operationId: "createAccount",
    tag: "Accounts",
    summary: "Create an account",
    description:
      "A new account has a balance of 0, so its keys cannot make calls before the first credit. Send your own `id` to make the request safe to retry: a repeat returns 200 with the existing account.",
    credentials: ["adminToken"],
    errors: [
      ...BODY_ERRORS,
      fieldFault("name", "1 to 200 characters on a single line"),
      ...ERRORS,
      unknownOutcome(accountExample.id),
    ],
  }),
}

const listing = {
  query: PageQuery,
  response: {
    200: answer("A page of accounts.", listOf(AccountBody), {
      accounts: { data: [accountExample], next: null },
    }),
  },
  detail: operation({
    operationId: "listAccounts",
    tag: "Accounts",
    summary: "List accounts",
    description: "Lists all accounts, newest first.",
    credentials: ["adminToken"],
    errors: [PAGE_FAULT, ...ERRORS],
  }),
}

const reading = {
  params: pathId("The account's id."),
  response: { 200: answer("The account.", AccountBody, { account: accountExample }) },
  detail: operation({
    operationId: "getAccount",
    tag: "Accounts",
    summary: "Get an account",
    description: "`available` is what new calls can hold: the balance minus what open calls hold.",
    credentials: ["adminToken"],
    errors: [NO_ACCOUNT, ...ERRORS],
  }),
}

const balanceExample: BalanceBody = {
  account_id: accountExample.id,
  at: "2026-11-01T00:00:00.000Z",
  balance: "12.5",
  held: "0.02",
  available: "12.48",
}

const readingBalance = {
  params: pathId("The account's id."),
  query: BalanceQuery,
  response: {
    200: answer(
      "The balance at that time, what open calls held, and what new calls could hold.",
      BalanceBody,
      {
        balance: balanceExample,
      },
    ),
  },
  detail: operation({
    operationId: "getBalance",
    tag: "Accounts",
    summary: "Get a past balance",
    description:
      "Computes the balance at a time in the past: the current balance without the entries made since. It reads the sums of the hours and days since then, and the entries of hours without sums. Before the first credit the balance is 0.",
    credentials: ["adminToken"],
    errors: [fieldFault("at", "an RFC 3339 time or a day such as 2026-11-21"), NO_ACCOUNT, ...ERRORS],
  }),
}

const changing = {
  params: pathId("The account's id."),
  body: shown(AccountChange, {
    suspend: { suspended: true },
    resume: { suspended: false },
    rename: { name: "Acme Ltd" },
  }),
  response: {
    200: answer("The changed account.", AccountBody, {
      suspended: { ...accountExample, suspended: true },
      active: accountExample,
    }),
  },
  detail: operation({
    operationId: "changeAccount",
    tag: "Accounts",
    summary: "Rename or suspend an account",
    description:
      "Fields that you leave out stay unchanged. After a suspension, every new call gets a 403. Calls in progress continue, and receipts stay readable. You can credit a suspended account.",
    credentials: ["adminToken"],
    errors: [...BODY_ERRORS, fieldFault("suspended", "true or false"), NO_ACCOUNT, ...ERRORS],
  }),
}

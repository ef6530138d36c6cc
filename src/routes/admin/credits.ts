import { Elysia } from "elysia"
import { GatewayError } from "../../errors.ts"
import { nextId } from "../../id.ts"
import {
  type Credit,
  type CreditOrder,
  type CreditResult,
  credit,
  creditsBefore,
  getCredit,
  getTimedCredit,
  listCredits,
  pageOfCredits,
} from "../../ledger/accounts/credits.ts"
import type { Listed, Page } from "../../ledger/database/page.ts"
import { printUsd } from "../../money.ts"
import { CreditBody, CreditedBody, listOf, NewCredit } from "../../wire/admin.ts"
import { PageQuery, pageOf } from "../../wire/admin-query.ts"
import { pathId } from "../../wire/parameter.ts"
import { printTime } from "../../wire/time.ts"
import {
  accountExample,
  BODY_ERRORS,
  creditExample,
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
  type Found,
  find,
  liveAccount,
  noAccount,
  shardField,
  shardOfAccount,
} from "./shards.ts"

/** `/admin/accounts/{id}/credits`: the credits of an account. */
export function creditRoutes(operators: Operators) {
  return new Elysia({ name: "admin-credits" })
    .post(
      "/accounts/:id/credits",
      async ({ params, body: { id, amount: amount_nano, reason = null }, status }) => {
        const order = { id: id ?? nextId(), account_id: params.id, amount_nano, reason }
        const { shard, answer } = await credited(operators, order, id !== undefined)
        const result = made(answer)
        const account = { ...accountBody(result.account), ...shardField(operators, shard) }
        const body = { ...creditBody(result.credit), account }
        return status(result.outcome === "credited" ? 201 : 200, body)
      },
      crediting,
    )
    .get(
      "/accounts/:id/credits",
      async ({ params, query }) => {
        await liveAccount(operators, params.id)
        const { data, next } = await creditsOf(operators, params.id, pageOf(query))
        return { data: data.map(creditBody), next }
      },
      listing,
    )
}

/**
 * Credits the account in its shard. The operator's own id may be that of a credit in another shard: of another account, or
 * of this one before it moved. So all shards are asked for it first.
 */
async function credited(
  operators: Operators,
  order: CreditOrder,
  is_own_id: boolean,
): Promise<Found<CreditResult>> {
  const several = operators.shards.length > 1
  const known =
    several && is_own_id ? await find(operators, (database) => getCredit(database, order.id)) : null
  if (known !== null) return repeated(operators, order, known)
  const shard = await shardOfAccount(operators, order.account_id)
  const move = (database: OperatedShard["database"]) => credit(database, order)
  return { shard, answer: await askShard(operators, shard, move, { fields: { id: order.id } }) }
}

async function repeated(
  operators: Operators,
  { account_id, amount_nano }: CreditOrder,
  { answer: known }: Found<Credit>,
): Promise<Found<CreditResult>> {
  const { shard, answer: account } = await liveAccount(operators, account_id)
  const is_same = known.account_id === account_id && known.amount_nano === amount_nano
  return { shard, answer: is_same ? { outcome: "known", credit: known, account } : { outcome: "conflict" } }
}

/** The credits of an account: those made before a move are in another shard. */
async function creditsOf(operators: Operators, account_id: string, page: Page): Promise<Listed<Credit>> {
  const [first, ...others] = operators.shards
  if (others.length === 0)
    return askShard(operators, first, (database) => listCredits(database, account_id, page))
  const { limit, after } = page
  const last = after === null ? null : await find(operators, (database) => getTimedCredit(database, after))
  if (after !== null && last === null) return { data: [], next: null }
  const found = await askAll(operators, (database) =>
    creditsBefore(database, account_id, last?.answer ?? null, limit + 1),
  )
  return pageOfCredits(found.flat(), page)
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

function creditBody({ id, amount_nano, reason, created_at }: Credit): CreditBody {
  return { id, amount: printUsd(amount_nano), reason, created_at: printTime(created_at) }
}

const examples = { credit: { ...creditExample, account: accountExample } }

const crediting = {
  params: pathId("The account's id."),
  body: shown(NewCredit, {
    credit: { id: creditExample.id, amount: "10", reason: creditExample.reason },
    correction: { amount: "-2.50", reason: "Credited twice by mistake" },
  }),
  response: {
    200: answer("This credit was made earlier. Nothing was changed.", CreditedBody, examples),
    201: answer("The account was credited.", CreditedBody, examples),
  },
  detail: operation({
    operationId: "creditAccount",
    tag: "Accounts",
    summary: "Credit an account",
    description:
      "Send your own `id` to make the request safe to retry: a repeat with the same id changes nothing and returns 200 with the credit, and a different amount or account with the same id is an error. A negative amount is a correction and can make the balance negative. If the database does not respond (503), the error has the `id` to retry with.",
    credentials: ["adminToken"],
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
  }),
}

const listing = {
  params: pathId("The account's id."),
  query: PageQuery,
  response: {
    200: answer("A page of credits.", listOf(CreditBody), {
      credits: { data: [creditExample], next: null },
    }),
  },
  detail: operation({
    operationId: "listCredits",
    tag: "Accounts",
    summary: "List an account's credits",
    description: "Lists credits and corrections, newest first.",
    credentials: ["adminToken"],
    errors: [PAGE_FAULT, NO_ACCOUNT, ...ERRORS],
  }),
}

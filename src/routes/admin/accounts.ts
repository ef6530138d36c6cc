import { Elysia } from "elysia"
import { endUserNames } from "../../admission/end-user.ts"
import { ledgerTime } from "../../id.ts"
import type { MoveState } from "../../ledger/moves/moves.ts"
import { printUsd } from "../../money.ts"
import { AccountBody, AccountChange, BalanceBody, NewAccount as NewAccountBody } from "../../wire/admin.ts"
import { AccountsQuery, BalanceQuery, checkPast, pageOf } from "../../wire/admin-query.ts"
import { invalidField, invalidRequest } from "../../wire/fault.ts"
import { ForgetEndUser, ForgottenEndUser } from "../../wire/labels.ts"
import { MoveBody, NewMove } from "../../wire/moves.ts"
import { pathId } from "../../wire/parameter.ts"
import { bodyOf } from "../../wire/record.ts"
import { printTime } from "../../wire/time.ts"
import { accountBody, pageBody } from "../record-bodies.ts"
import { EXAMPLE_ID } from "../reference/example.ts"
import { accepted, answer, errorOf, found, notFound, page, shown } from "../reference/operation.ts"
import { NO_ACCOUNT, ofAccounts, ofOne } from "../reference/routes.ts"
import type { Operators } from "./operators.ts"

interface SentSettings {
  readonly price_multiplier?: number | undefined
  /** The name of `price_multiplier` in version 0.2. */
  readonly margin?: number | undefined
  readonly credit_limit?: bigint | undefined
  readonly low_balance?: bigint | null | undefined
}

/** The settings of an account in a request, as the ledger names them. A credit limit of 0 is none. */
function settingsIn<Body extends SentSettings>(body: Body) {
  const { price_multiplier, margin, credit_limit, low_balance: low_balance_nano, ...others } = body
  if (price_multiplier !== undefined && margin !== undefined)
    throw invalidField("margin", "no such field beside price_multiplier")
  const credit_limit_nano = credit_limit === 0n ? null : credit_limit
  return { ...others, price_multiplier_bp: price_multiplier ?? margin, credit_limit_nano, low_balance_nano }
}

/** `/admin/accounts`: the accounts that pay for calls, their moves to other shards (D76), and the erasure of end users (D94). */
export function accountRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-accounts" })
    .post(
      "/accounts",
      async ({ body, status }) => {
        const made = accepted(await ledger.createAccount(settingsIn(body)), {
          conflict: OTHER_ACCOUNT,
          none_open: NONE_OPEN,
        })
        return status(made.outcome === "created" ? 201 : 200, accountBody(made.account))
      },
      ofAccounts({
        body: shown(NewAccountBody, {
          account: { name: "Acme" },
          repeatable: { id: EXAMPLE_ID, name: "Acme" },
          external: { name: "Acme", external_id: "customer-118" },
        }),
        response: {
          200: answer("An account with this id already exists. Nothing was changed.", AccountBody),
          201: answer("The account.", AccountBody, {
            account: nothing,
            external: { ...nothing, ...external },
          }),
        },
        operationId: "createAccount",
        summary: "Create an account",
        description:
          "A new account has a balance of 0, so its keys cannot make calls before the first credit. Send your own `id` to make the request safe to retry: a repeat returns 200 with the existing account. So does a repeat with the same `external_id` and no `id`.",
        invalid: "name",
      }),
    )
    .get(
      "/accounts",
      async ({ query }) => pageBody(await ledger.listAccounts(pageOf(query), query), accountBody),
      ofAccounts({
        query: AccountsQuery,
        response: {
          200: page("accounts", AccountBody, {}, external, { may_manage_keys: true }),
        },
        operationId: "listAccounts",
        summary: "List accounts",
        description:
          "Lists accounts, newest first or in the order `sort`: all, those that `search` finds, or the one with `external_id`. In a list by balance, an account whose balance changes between two pages can be missing or listed twice.",
      }),
    )
    .get(
      "/accounts/:id",
      async ({ params: { id } }) => accountBody(found(await ledger.getAccount(id), NO_ACCOUNT)),
      ofOne("account", {
        response: { 200: answer("The account.", AccountBody) },
        operationId: "getAccount",
        summary: "Get an account",
        description: "`available` is the balance plus the credit limit, minus the holds of open calls.",
      }),
    )
    .get(
      "/accounts/:id/balance",
      async ({ params: { id }, query: { at } }) => {
        checkPast(at, ledgerTime())
        const { balance_nano, held_nano } = found(await ledger.balanceAt(id, at), NO_ACCOUNT)
        const available_nano = balance_nano - held_nano
        return bodyOf(BalanceBody, { account_id: id, at, balance_nano, held_nano, available_nano })
      },
      ofOne("account", {
        query: BalanceQuery,
        response: {
          200: answer("The balance, the held amount and the available amount at that time.", BalanceBody),
        },
        operationId: "getBalance",
        summary: "Get a past balance",
        description:
          "Computes the balance at a time in the past: the current balance without the entries made since. It reads the sums of the hours and days since then, and the entries of hours without sums. Before the first credit the balance is 0.",
        invalid: "at",
      }),
    )
    .patch(
      "/accounts/:id",
      async ({ params: { id }, body }) => {
        const account = found(await ledger.changeAccount(id, settingsIn(body)), NO_ACCOUNT)
        if (account === "conflict") throw OTHER_ACCOUNT()
        return accountBody(account)
      },
      ofOne("account", {
        body: shown(AccountChange, {
          suspend: { suspended: true },
          resume: { suspended: false },
          rename: { name: "Acme Ltd" },
          overdraft: { credit_limit: "100" },
          alert: { low_balance: "5" },
        }),
        response: {
          200: answer("The changed account.", AccountBody, {
            suspended: { suspended: true },
            active: {},
            alert: { low_balance: "5" },
          }),
        },
        operationId: "changeAccount",
        summary: "Change an account",
        description:
          "Fields that you leave out stay unchanged. After a suspension, every new call gets a 403. Calls in progress continue, and receipts stay readable. You can credit a suspended account.",
        invalid: "suspended",
      }),
    )
    .post(
      "/accounts/:id/move",
      async ({ params: { id }, body: { to } }) => moveBody(id, to, await ledger.move(id, to)),
      ofOne("account", {
        body: shown(NewMove, { move: { to: "b" } }),
        response: {
          200: answer("How far the move is.", MoveBody, {
            done: { to: "b", step: "done", held: "0", violations: [] },
            draining: { to: "b", step: "draining", violations: [] },
          }),
        },
        operationId: "moveAccount",
        summary: "Move an account to another shard",
        description:
          "Begins or continues the move and waits up to 2 seconds for its end. Repeat the request until `step` is `done`; a move that was interrupted continues where it was. Until then the account's calls get a 503 with `Retry-After`, and its keys cannot be changed. The account's balance, keys, limits and Idempotency-Keys move; its past calls stay in the old shard and stay readable.",
        invalid: "to",
      }),
    )
    .post(
      "/accounts/:id/forget-end-user",
      async ({ params: { id }, body: { end_user } }) => {
        for (const name of endUserNames(end_user)) {
          const user = await ledger.forgetEndUser(id, name)
          if (user !== null) return { id: user.id, forgotten_at: printTime(user.forgotten_at) }
        }
        throw errorOf(NO_END_USER)
      },
      ofAccounts({
        params: pathId("The account's id."),
        body: shown(ForgetEndUser, { person: { end_user: "ann@example.com" } }),
        response: {
          200: answer("The end user without its name.", ForgottenEndUser),
        },
        operationId: "forgetEndUser",
        summary: "Forget an end user",
        description:
          "Removes the name of an end user. Calls keep the id, so that no sum and no entry of the journal changes, and can still be found by it. A repeat with the id changes nothing. A later call with the same name is another end user; other gateways may use the former id for up to 5 minutes.",
        invalid: "end_user",
        errors: [NO_END_USER],
      }),
    )
}

const OTHER_ACCOUNT = () =>
  invalidRequest("Another account already has this external id. Nothing was changed.", "external_id")

const NONE_OPEN = () =>
  invalidRequest("No shard is open for new accounts. Set `open: true` for one of them in the configuration.")

const external = { external_id: "customer-118" }
const nothing = { balance: "0", held: "0", available: "0" }

const refused = (message: string) => invalidRequest(message, "to")

function moveBody(account_id: string, to: string, state: MoveState): MoveBody {
  const body = { account_id, to, held: "0", violations: [] }
  switch (state.outcome) {
    case "moving":
      return { ...body, step: state.step, held: printUsd(state.held_nano) }
    case "cancelled":
      return { ...body, step: "cancelled" }
    case "moved": {
      const violations = state.differences.map(({ kind, id, recorded_nano, expected_nano }) => ({
        kind,
        id,
        recorded: printUsd(recorded_nano),
        expected: printUsd(expected_nano),
      }))
      return { ...body, step: "done", violations }
    }
    case "no_account":
      throw errorOf(NO_ACCOUNT)
    case "one_shard":
      throw refused("There is only one shard, so no account can be moved.")
    case "no_shard":
      throw refused(`No shard has this name. The shards are: ${state.known.join(", ")}.`)
    case "same_shard":
      throw refused("The account is in this shard already.")
    case "elsewhere":
      throw refused(
        `The account is being moved to shard ${state.shard}. Finish that move first, or cancel it with a move to the shard that the account is in.`,
      )
    case "taken":
      throw refused("Another account in this shard has the same id. Nothing was changed.")
  }
}

const NO_END_USER = notFound("No end user of this account has this name or id.")

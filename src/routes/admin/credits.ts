import { Elysia } from "elysia"
import { GatewayError } from "../../errors.ts"
import type { Account } from "../../ledger/accounts/accounts.ts"
import type { CreditStanding } from "../../ledger/accounts/credits.ts"
import { PageQuery, pageOf } from "../../wire/admin-query.ts"
import { CreditedBody, checkGrant, GrantBody, NewCredit, VoidedCredit } from "../../wire/credit-bodies.ts"
import { invalidField, invalidRequest } from "../../wire/fault.ts"
import { accountBody, grantBody, pageBody } from "../record-bodies.ts"
import { EXAMPLE_ID } from "../reference/example.ts"
import { accepted, answer, found, page, shown } from "../reference/operation.ts"
import { NO_ACCOUNT, NO_CREDIT, ofOne } from "../reference/routes.ts"
import { archivedCall } from "./calls.ts"
import type { Operators } from "./operators.ts"

/** `/admin/accounts/{id}/credits` and `/admin/credits`: the credits of an account. */
export function creditRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-credits" })
    .post(
      "/accounts/:id/credits",
      async ({ params, body, status }) => {
        checkGrant(body)
        const { amount: amount_nano, reason = null, ...grant } = body
        const order = { ...grant, account_id: params.id, amount_nano, reason }
        const result = accepted(await orArchived(ledger, order), REFUSALS)
        if (result.outcome === "conflict")
          throw invalidRequest(
            `Another credit already has this ${result.field}. Nothing was changed. Use a new ${result.field} for a new credit.`,
            result.field,
          )
        return status(result.outcome === "credited" ? 201 : 200, creditedBody(result))
      },
      ofOne("account", {
        body: shown(NewCredit, {
          credit: { id: EXAMPLE_ID, amount: "10", reason: "Invoice 2026-118" },
          correction: { amount: "-2.50", reason: "Credited twice by mistake" },
          promotion: { amount: "5", kind: "promotion", priority: 10, expires_at: "2030-01-01T00:00:00Z" },
        }),
        response: {
          200: answer("This credit was made earlier. Nothing was changed.", CreditedBody),
          201: answer("The account was credited.", CreditedBody, {
            credit: {},
            correction: { amount: "-2.5", kind: "correction", left: "0" },
            promotion: {
              amount: "5",
              kind: "promotion",
              priority: 10,
              expires_at: "2030-01-01T00:00:00.000Z",
              left: "5",
              reason: null,
            },
          }),
        },
        operationId: "creditAccount",
        summary: "Credit an account",
        description:
          "Send your own `id` to make the request safe to retry: a repeat with the same id changes nothing and returns 200 with the credit, and a different amount or account with the same id is an error. A negative amount is a correction and can make the balance negative. A credit can expire (`expires_at`), begin later (`effective_at`), and be spent before or after others (`priority`). With a `source_ref`, such as the id of a payment, a repeated webhook credits once. With a `call_id`, it refunds that call. If the database does not respond (503), the error has the `id` to retry with.",
        invalid: "amount",
      }),
    )
    .get(
      "/accounts/:id/credits",
      async ({ params, query }) =>
        pageBody(found(await ledger.listCredits(params.id, pageOf(query)), NO_ACCOUNT), grantBody),
      ofOne("account", {
        query: PageQuery,
        response: { 200: page("credits", GrantBody) },
        operationId: "listCredits",
        summary: "List an account's credits",
        description: "Lists credits and corrections, newest first, with what is left of each.",
      }),
    )
    .post(
      "/credits/:id/void",
      async ({ params, body: { reason = null } }) => {
        const result = found(await ledger.voidCredit(params.id, reason), NO_CREDIT)
        return creditedBody(accepted(result, { no_grant: NO_GRANT }))
      },
      ofOne("credit", {
        body: shown(VoidedCredit, { void: { reason: "Granted to the wrong account" } }),
        response: {
          200: answer("What was left of the credit was taken back.", CreditedBody, {
            credit: { left: "0", voided: "6.783595" },
          }),
        },
        operationId: "voidCredit",
        summary: "Void a credit",
        description:
          "Takes back the rest of a credit. Open calls can still spend the money that they hold; what they do not spend is taken back when they end. A repeat changes nothing.",
        invalid: "reason",
      }),
    )
}

/** The result of a credit. Throws `archived` for a refund of a call in a detached month (D75). */
async function orArchived(ledger: Operators["ledger"], order: Parameters<typeof ledger.credit>[0]) {
  const result = await ledger.credit(order)
  const archive =
    result.outcome === "no_call" && order.call_id !== undefined ? await ledger.archiveOf(order.call_id) : null
  if (archive !== null) throw new GatewayError("archived", { message: archivedCall(archive) })
  return result
}

const NO_GRANT = () =>
  invalidRequest("This credit has a negative amount, so there is nothing to take back. Add a credit instead.")

const REFUSALS = {
  no_account: NO_ACCOUNT,
  no_call: () => invalidField("call_id", "the id of a call of this account"),
  call_open: () => invalidField("call_id", "a call that has ended"),
  over_charge: () =>
    invalidRequest(
      "All refunds of a call together can be at most its charge. Nothing was changed. The call's receipt shows its charge and its refunds.",
      "amount",
    ),
  expired: () => invalidField("expires_at", "an RFC 3339 time in the future"),
  out_of_range: () =>
    invalidRequest(
      "This amount would take the balance out of the supported range. Nothing was changed.",
      "amount",
    ),
}

function creditedBody({ credit, account }: { readonly credit: CreditStanding; readonly account: Account }) {
  return { ...grantBody(credit), account: accountBody(account) }
}

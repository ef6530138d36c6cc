import { Elysia } from "elysia"
import { endUserNames } from "../../admission/end-user.ts"
import { ForgetEndUser, ForgottenEndUser } from "../../wire/labels.ts"
import { pathId } from "../../wire/parameter.ts"
import { printTime } from "../../wire/time.ts"
import { ofAccounts } from "../reference/examples.ts"
import { answer, errorOf, notFound, shown } from "../reference/operation.ts"
import type { Operators } from "./operators.ts"

/** `/admin/accounts/{id}/forget-end-user`: the erasure of a person (D94). */
export function endUserRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-end-users" }).post(
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
        200: answer("The end user without its name.", ForgottenEndUser, {
          person: {
            id: "019f8b1c-4444-7000-9b3e-2c7d8e9f0a15",
            forgotten_at: "2026-11-26T09:30:00.000Z",
          },
        }),
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

const NO_END_USER = notFound("No end user of this account has this name or id.")

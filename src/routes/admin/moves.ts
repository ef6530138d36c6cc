import { Elysia } from "elysia"
import type { MoveState } from "../../ledger/moves/moves.ts"
import { printUsd } from "../../money.ts"
import { invalidRequest } from "../../wire/fault.ts"
import { MoveBody, NewMove } from "../../wire/moves.ts"
import { accountExample, NO_ACCOUNT, ofOne } from "../reference/examples.ts"
import { answer, errorOf, shown } from "../reference/operation.ts"
import type { Operators } from "./operators.ts"

/** `/admin/accounts/{id}/move`: moves an account to another shard (D76). */
export function moveRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-moves" }).post(
    "/accounts/:id/move",
    async ({ params: { id }, body: { to } }) => moveBody(id, to, await ledger.move(id, to)),
    ofOne("account", {
      body: shown(NewMove, { move: { to: "b" } }),
      response: {
        200: answer("How far the move is.", MoveBody, {
          done: body,
          draining: { ...body, step: "draining", held: "0.02" },
        }),
      },
      operationId: "moveAccount",
      summary: "Move an account to another shard",
      description:
        "Begins or continues the move and waits up to 2 seconds for its end. Repeat the request until `step` is `done`; a move that was interrupted continues where it was. Until then the account's calls get a 503 with `Retry-After`, and its keys cannot be changed. The account's balance, keys, limits and Idempotency-Keys move; its past calls stay in the old shard and stay readable.",
      invalid: "to",
    }),
  )
}

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

const body: MoveBody = { account_id: accountExample.id, to: "b", step: "done", held: "0", violations: [] }

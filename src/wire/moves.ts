import { type Static, Type } from "@sinclair/typebox"
import { Id, line, requestBody } from "./admin.ts"
import { oneOf, text } from "./field.ts"

const moveSteps = ["draining", "copying", "comparing", "switching", "auditing", "done", "cancelled"] as const

/** The progress of an account's move to another shard (D76). */
export const MoveBody = Type.Object({
  account_id: Id,
  to: text("The shard."),
  step: oneOf(
    moveSteps,
    "`draining`: it waits for the account's open calls. `copying`, `comparing`, `switching`, `auditing`: repeat the request until it is `done`. `cancelled`: the account is live where it was.",
  ),
  held: text("What the open calls of the account hold, in USD."),
  violations: Type.Array(
    Type.Object({
      kind: text("`balance`, `held` or `spent`."),
      id: Id,
      recorded: Type.String(),
      expected: Type.String(),
    }),
    { description: "What the audits of the account found in the old and the new shard, once it is done." },
  ),
})
export type MoveBody = Static<typeof MoveBody>

export const NewMove = requestBody({
  to: line(64, "The name of the shard to move the account to; the current one cancels a move."),
})

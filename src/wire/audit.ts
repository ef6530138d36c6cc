import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { CallBody } from "./admin.ts"
import { query, wholeNumber, word } from "./parameter.ts"

const { id: Id, reserved: Money, started_at: Time } = CallBody.properties
const Count = Type.Integer({ minimum: 0 })
const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])

/** What an audit finds wrong (D55). */
export const AuditBody = Type.Object({
  checked_at: Time,
  accounts: Count,
  open_reservations: Count,
  violations: Type.Array(
    Type.Object({
      kind: Type.String({
        enum: ["balance", "held", "spent", "charge", "entry", "abandoned", "unheld"],
        description:
          "What does not match. `balance` and `held`: an account and the sum of its entries. `spent`: what a spending limit has counted and the calls of its key. `charge`: the charge of a call and its tokens at its prices and margin. `entry`: an end and its hold, or a correction and the expiry that it corrects. `abandoned`: an open hold that no gateway can end any more; the next sweep of this gateway expires it. `unheld`: a settlement without a hold. It waits in the spool of this gateway, or of the data directory of a command with `--database`.",
      }),
      account_id: Id,
      id: nullable(
        Type.String({
          description: "The id of the key (`spent`) or call (`charge`, `entry`, `abandoned`, `unheld`).",
        }),
      ),
      recorded: nullable(Money),
      expected: nullable(Money),
    }),
    {
      description:
        "`recorded` is null if the account of the entries does not exist, `expected` if the entry that it follows from is missing.",
    },
  ),
})
export type AuditBody = Static<typeof AuditBody>

const full = Type.Optional(
  word(
    ["true", "false"],
    "Whether to read the entries of sealed months too, instead of the sums in their seals. Default: false.",
  ),
)

export const AuditQuery = query({ full })

export const AuditProgressQuery = query({
  full,
  share: Type.Optional(
    wholeNumber(
      100,
      10,
      "The percentage of the time in which the audit works. It rests in between, so that calls keep the database. The first two seconds of work need no rest.",
    ),
  ),
})

/** A line of an audit that shows its progress: how far it has come, or its end. */
export const AuditLine = Type.Union([
  Type.Object({ month: Type.String(), calls: Count, accounts: Count }),
  Type.Object({ audit: AuditBody }),
  Type.Object({ error: Type.Object({ message: Type.String() }) }),
])
export type AuditLine = Static<typeof AuditLine>

import { type Static, Type } from "@sinclair/typebox"
import { CallBody } from "./admin.ts"
import { EXPECTED } from "./fault.ts"

/** The months of the journal under `/admin`, and the check of their seals (D71). */

const { id: Id, reserved: Money, started_at: Time } = CallBody.properties
const Count = Type.Integer({ minimum: 0 })

const Month = (options: Record<string, string> = {}) =>
  Type.String({ pattern: "^\\d{4}-(0[1-9]|1[0-2])$", ...options })

const Seal = Type.Object({
  sealed_at: Time,
  entries: Type.Integer({ minimum: 0, description: "The number of its holds, ends and corrections." }),
  calls: Count,
  charge: Money,
  hash: Type.String({
    pattern: "^[0-9a-f]{64}$",
    description: "SHA-256 over the hashes of its hours and its sums per account, key and terms.",
  }),
})

/** The months of the journal, latest first. */
export const MonthsBody = Type.Object({
  data: Type.Array(
    Type.Object({
      month: Month({ description: "A month of UTC." }),
      seal: Type.Union([Seal, Type.Null()], { description: "Null if the month is not sealed." }),
    }),
  ),
})
export type MonthsBody = Static<typeof MonthsBody>

/** Which hour of which month is compared with its seal. */
export const SealCheck = Type.Object(
  {
    month: Month({ [EXPECTED]: "a month such as 2026-10" }),
    from: Type.Optional(
      Type.String({
        pattern: "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        description: "The `next` of an earlier answer. Default: the first hour, and the seal itself.",
        [EXPECTED]: "the `next` of an earlier answer",
      }),
    ),
  },
  { additionalProperties: false, [EXPECTED]: "a JSON object" },
)

export const CheckedSealBody = Type.Object({
  entries: Type.Integer({ minimum: 0, description: "The number of entries that the hour has now." }),
  matches: Type.Boolean({ description: "Whether they are the entries that were sealed." }),
  next: Type.Union([Id, Type.Null()], {
    description: "The lowest id of the next hour to check. Null after the last one.",
  }),
})

import { type Static, Type } from "@sinclair/typebox"
import { Count, Id, Money, parsed, requestBody, Time } from "./admin.ts"
import { EXPECTED } from "./fault.ts"
import { choice, count, nullable, resource, text, titled } from "./field.ts"
import { query, wholeNumber, word } from "./parameter.ts"
import { parseTime, printTime } from "./time.ts"

/** Requests and answers of the ledger's checks: the audit, the seals of months, the sums. */

const Shard = titled("Shard", Type.Optional(text("The name of the shard, if there are several.")))

/** The kinds of violations; the ledger says what each is. */
export const violationKinds = [
  "balance",
  "held",
  "spent",
  "grant",
  "budget_spent",
  "budget_held",
  "charge",
  "entry",
  "attempt",
  "abandoned",
  "labels",
  "price",
  "unheld",
] as const

export const Violation = resource({
  shard: Shard,
  kind: titled(
    "Kind",
    choice(violationKinds),
    "The kind of violation. `balance`, `held`: the account differs from the sum of its entries. `spent`: a spending limit's counter differs from the sum of its key's calls. `budget_spent`, `budget_held`: a budget's counter differs from the sum over its calls, in the unit of the budget. `charge`: the charge of a call differs from its tokens at its prices and price multiplier. `entry`: an end does not match its hold, or a correction the expiry that it corrects. `attempt`: an attempt at a provider has no hold of its account. `abandoned`: no gateway can end an open hold; the next sweep of this gateway expires it. `labels`: the row that names the end user and tags of a call is missing. `price`: a call was held at another price than the customer price of that moment. `unheld`: a settlement has no hold. It waits in the spool of this gateway, or of the data directory of a command with `--database`.",
  ),
  account_id: titled("Account", Id),
  id: titled(
    "Key, budget or call",
    nullable(
      text(
        "The id of the key (`spent`), budget (`budget_spent`, `budget_held`) or call (`charge`, `entry`, `attempt`, `abandoned`, `labels`, `unheld`).",
      ),
    ),
  ),
  recorded: nullable(Money),
  expected: nullable(Money),
})

/** The result of an audit (D55). */
export const AuditBody = Type.Object({
  checked_at: Time,
  accounts: Count,
  open_holds: Count,
  violations: Type.Array(Violation, {
    description:
      "`recorded` is null if the account of the entries does not exist, `expected` if the entry that it follows from is missing.",
  }),
})
export type AuditBody = Static<typeof AuditBody>

/** An audit that ended (D107). */
export const AuditRecordBody = resource({
  shard: Shard,
  id: titled("ID", Id),
  checked_at: titled("Checked", Time),
  started_at: titled("Started", Time),
  actor: titled("By", Type.String({ description: "The name of the operator who asked for it." })),
  scope: Type.String({
    description: "`all` if the entries of sealed months were read too, `open` if their seals were.",
  }),
  accounts: Count,
  open_holds: Count,
  violations: Count,
  entries_until: Time,
  hash: titled(
    "SHA-256",
    Type.String({ pattern: "^[0-9a-f]{64}$" }),
    "SHA-256 over the seals of months, and the sums per account of the other entries before `entries_until`. Another audit of the same entries has the same hash.",
  ),
})
export type AuditRecordBody = Static<typeof AuditRecordBody>

const full = word(
  ["true", "false"],
  "Whether to read the entries of sealed months too, instead of the sums in their seals. Default: false.",
)

export const AuditQuery = query({ full })

export const AuditProgressQuery = query({
  full,
  share: wholeNumber(
    100,
    10,
    "The share of the time that the audit may use, in percent. It pauses otherwise, so that calls are not slowed down. The first half second has no pauses.",
  ),
})

/** A line of an audit that shows its progress: how far it has come, or its end. */
export const AuditLine = Type.Union([
  Type.Object({ shard: Shard, month: Type.String(), calls: Count, accounts: Count }),
  Type.Object({ audit: AuditBody }),
  Type.Object({ error: Type.Object({ message: Type.String() }) }),
])
export type AuditLine = Static<typeof AuditLine>

const Month = (options: Record<string, string> = {}) =>
  Type.String({ pattern: "^\\d{4}-(0[1-9]|1[0-2])$", ...options })

export const Seal = resource({
  sealed_at: titled("Sealed", Time),
  entries: count("The number of its holds, ends, corrections and attempts."),
  calls: Count,
  charge: Money,
  hash: titled(
    "SHA-256",
    Type.String({ pattern: "^[0-9a-f]{64}$" }),
    "SHA-256 over the hashes of its hours and its sums per account, key and terms.",
  ),
})

export const MonthBody = resource({
  shard: Shard,
  month: Month({ description: "A month of UTC." }),
  seal: nullable(Seal, "Null if the month is not sealed."),
  detached_at: nullable({
    ...Time,
    description: "The time at which its calls left the journal. Null while they are in it.",
  }),
  dropped_at: nullable({ ...Time, description: "When its tables were dropped. Null if they are there." }),
  archive: nullable(text("Where its dump is. Null if none was made.")),
})
export type MonthBody = Static<typeof MonthBody>

/** The months of the journal with their seals, latest first (D71). */
export const MonthsBody = Type.Object({ data: Type.Array(MonthBody) })
export type MonthsBody = Static<typeof MonthsBody>

const monthOfShard = {
  month: Month({ [EXPECTED]: "a month such as 2026-10" }),
  shard: Type.Optional(
    Type.String({
      description: "The name of the shard: required if there are several.",
      [EXPECTED]: "the name of a shard",
    }),
  ),
}
const fromNext = (otherwise: string) =>
  Type.Optional(
    Type.String({
      pattern: "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
      description: `The \`next\` of an earlier answer. Default: ${otherwise}.`,
      [EXPECTED]: "the `next` of an earlier answer",
    }),
  )

/** The hour of a month to compare with its seal. */
export const SealCheck = requestBody({
  ...monthOfShard,
  from: fromNext("the first hour, and the seal itself"),
})

export const CheckedSealBody = Type.Object({
  entries: count("The number of entries that the hour has now."),
  matches: Type.Boolean({ description: "Whether they are the entries that were sealed." }),
  next: nullable(Id, "The lowest id of the next hour to check. Null after the last one."),
})

export const DumpQuestion = requestBody({ ...monthOfShard, from: fromNext("the beginning") })

export const DumpBody = Type.Object({
  lines: Type.Array(Type.String(), {
    description:
      "Lines of the dump. Each is an object with one key: `seal`, `hour` or `sum` for the seal, and `hold`, `end` or `correction` for an entry.",
  }),
  next: nullable(Id, "Where the next part begins. Null after the last one."),
})

export const DumpNote = requestBody({
  ...monthOfShard,
  hash: Type.String({
    pattern: "^[0-9a-f]{64}$",
    description: "The hash of the seal, as it was computed from the dump.",
    [EXPECTED]: "a SHA-256 in hex",
  }),
  archive: Type.String({
    minLength: 1,
    maxLength: 500,
    description: "The location of the dump. Operators who request a call of this month see it.",
    [EXPECTED]: "1 to 500 characters",
  }),
})

export const MonthQuestion = requestBody(monthOfShard)

export const MonthDone = Type.Object({ month: Month() })

const DayOrNull = (description: string) => nullable(Type.String({ format: "date", description }))

/** A day of UTC, decoded to its first moment. */
const Day = parsed(
  "day",
  "a day such as 2026-11-21",
  { pattern: "^\\d{4}-\\d{2}-\\d{2}$", description: "Default: the first day that has sums." },
  (text) => parseTime(`${text}T00:00:00Z`),
  (day) => printTime(day).slice(0, 10),
)

/** The day whose sums are compared with the journal (D72). */
export const SumsCheck = requestBody({ day: Type.Optional(Day) })

export const CheckedSumsBody = Type.Object({
  day: DayOrNull("The day, in UTC. Null if it has no sums yet."),
  sums: count("The number of sums of this day and its hours."),
  differed: count("The number of sums that were missing, wrong or surplus. All were corrected."),
  next: DayOrNull("The following day, if it has sums: the next one to check."),
})
export type CheckedSumsBody = Static<typeof CheckedSumsBody>

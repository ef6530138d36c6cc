import { type Static, Type } from "@sinclair/typebox"
import { EXPECTED, invalidField } from "./fault.ts"
import { parseTime, printTime } from "./time.ts"

/** The check of sums under `/admin` (D72). */

const DAY = "a day such as 2026-11-21"

const DayOrNull = (description: string) =>
  Type.Union([Type.String({ format: "date", description }), Type.Null()])

/** A day of UTC, decoded to its first moment. */
const Day = Type.Unsafe<Date>(
  Type.Transform(
    Type.String({
      pattern: "^\\d{4}-\\d{2}-\\d{2}$",
      description: "Default: the first day that has sums.",
      [EXPECTED]: DAY,
    }),
  )
    .Decode(dayOf)
    .Encode((day) => printTime(day).slice(0, 10)),
)

function dayOf(text: string): Date {
  const day = parseTime(`${text}T00:00:00Z`)
  if (day === null) throw invalidField("day", DAY)
  return day
}

/** Which day's sums are compared with the journal (D72). */
export const SumsCheck = Type.Object(
  { day: Type.Optional(Day) },
  { additionalProperties: false, [EXPECTED]: "a JSON object" },
)

/** What became of it. */
export const CheckedSumsBody = Type.Object({
  day: DayOrNull("The day, in UTC. Null if it has no sums yet."),
  sums: Type.Integer({ minimum: 0, description: "The number of sums of this day and its hours." }),
  differed: Type.Integer({
    minimum: 0,
    description: "How many sums were missing, wrong or too many. They have been replaced.",
  }),
  next: DayOrNull("The following day, if it has sums: the next one to check."),
})
export type CheckedSumsBody = Static<typeof CheckedSumsBody>

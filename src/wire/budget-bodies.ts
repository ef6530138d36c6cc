import { type Static, type StaticDecode, Type } from "@sinclair/typebox"
import { closed, EXPIRY, Id, line, OwnReason, orNull, ownId, parsed, requestBody, Time } from "./admin.ts"
import { budgetPeriods, budgetSelectors, budgetUnits } from "./budget.ts"
import { EXPECTED } from "./fault.ts"
import { fields, nullable, oneOf, optional, resource, text, titled } from "./field.ts"
import { parseTime, printTime } from "./time.ts"

/** Requests and answers about budgets (D97). */

const AMOUNT = "a decimal string: USD with at most 9 decimals, or a whole number of tokens or requests"
const zones: ReadonlySet<string> = new Set(["UTC", ...Intl.supportedValuesOf("timeZone")])

const amount = (description: string) =>
  Type.String({
    pattern: "^-?\\d+(?:\\.\\d{1,9})?$",
    description: `${description} In USD, tokens or requests, as \`unit\` says.`,
  })
const ownAmount = Type.String({
  pattern: "^\\d{1,15}(?:\\.\\d{1,9})?$",
  description: "The amount, in the unit.",
  [EXPECTED]: AMOUNT,
})

const selector = oneOf(
  budgetSelectors,
  "The calls that count: `all` of the account, or those of a key, of a group of keys, of a model, of an end user or with a tag.",
)
const unit = oneOf(budgetUnits, "What is counted: USD, tokens or requests.")
const per = oneOf(
  budgetPeriods,
  "The period, by the calendar of `timezone`. A `minute` has no beginning: it refills evenly. A `total` never begins anew.",
)
const mode = oneOf(
  ["hard", "alert"] as const,
  "A `hard` budget refuses calls; one with `alert` only counts and records its thresholds.",
)
const thresholds = Type.Array(Type.Integer({ minimum: 1, maximum: 1_000 }), {
  maxItems: 10,
  description: "Percentages of the amount. The journal records when the spending of a period reaches one.",
  [EXPECTED]: "at most 10 percentages",
})

/** Fields of a budget that operators and the keys that it concerns see. */
const common = fields({
  id: titled("ID", Id),
  name: Type.String({ examples: ["Search team"] }),
  selector: titled("Scope", selector),
  selected: nullable(
    text(
      "The id of the key or of the end user, the path of the group, the name of the model, or the tag; null for `all` and for each end user.",
    ),
  ),
  unit,
  per,
  timezone: text("A name of the IANA time zone database."),
  mode,
  limit: amount("The amount that is in force now: that of the raise, if there is one."),
  spent: amount(
    "The spending of the settled calls of this period. For a budget per minute, the part that calls have taken and that has not refilled.",
  ),
  held: amount("What open calls hold."),
  left: amount("The limit minus what is spent and held; negative if calls cost more than they held."),
  resets_at: titled(
    "Resets",
    nullable(
      Type.String({
        format: "date-time",
        description: "When the next period begins; null for a `total` and a `minute`.",
      }),
    ),
  ),
})

export const OwnBudget = Type.Object(common)
export type OwnBudget = Static<typeof OwnBudget>

export const BudgetBody = resource({
  ...common,
  account_id: Id,
  each: Type.Boolean({
    description:
      "True if each end user, or each value of the tag, has the amount by itself. `spent` and `held` are then those of all, and `left` is that of the one with the least.",
  }),
  amount: amount("The usual amount, without a raise."),
  raise: nullable(
    Type.Object(
      { amount: amount("The amount until then."), until: Time },
      { description: "The last raise, which may be over; null for none." },
    ),
  ),
  thresholds: thresholds,
  since: Time,
  created_at: Time,
})
export type BudgetBody = Static<typeof BudgetBody>

const name = line(200, "A name for the budget. Errors show it.")

export const NewBudget = requestBody({
  id: ownId("Makes the request safe to retry: the same id never creates two budgets."),
  name,
  selector,
  ...optional({
    selected: line(
      2_048,
      "The id of the key, the path of the group, the name of the model, or the name or id of the end user; without one, each end user has the amount. A tag is `name=value`, or `name` so that each value has the amount. Not with `all`.",
    ),
    unit,
  }),
  amount: ownAmount,
  per,
  ...optional({
    timezone: parsed(
      "timezone",
      "a name of the IANA time zone database, such as Europe/Berlin",
      { maxLength: 64, description: "A name of the IANA time zone database. Default: UTC." },
      (text) => (zones.has(text) ? text : null),
      (zone) => zone,
    ),
    mode,
    thresholds,
  }),
  reason: OwnReason,
})
export type NewBudget = StaticDecode<typeof NewBudget>

const untilField = { format: "date-time", description: "When the raise ends." }
const raise = Type.Object(
  { amount: ownAmount, until: parsed("raise.until", EXPIRY, untilField, parseTime, printTime) },
  {
    ...closed,
    description: "Another amount until a time.",
    [EXPECTED]: "an object with `amount` and `until`",
  },
)

export const BudgetChangeBody = requestBody({
  ...optional({ name, amount: ownAmount, mode, thresholds, raise: orNull(raise) }),
  reason: OwnReason,
})

export const BudgetReset = requestBody({ reason: OwnReason })

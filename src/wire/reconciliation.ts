import { type Static, Type } from "@sinclair/typebox"
import { recordOf } from "../kinds.ts"
import { Count, line, Money, requestBody, Time, usd } from "./admin.ts"
import { operationNames } from "./call.ts"
import { EXPECTED, invalidField } from "./fault.ts"
import { choice, nullable, oneOf, optional, text } from "./field.ts"
import { model, moment, query, word } from "./parameter.ts"
import { type ComparedState, causes, comparedStates, providers } from "./reconciliation-words.ts"

/** `/admin/reconciliation`: our sums, and a comparison of them with a provider's usage export (D98). */

export const steps = ["hour", "day"] as const
export type ReportStep = (typeof steps)[number]
export const STEP_MS: Readonly<Record<ReportStep, number>> = { hour: 3_600_000, day: 86_400_000 }
export const MAX_DAYS = 31

export const ReconciliationQuery = query(
  {
    step: word(steps, "The length of a step in UTC. Default: `hour`."),
  },
  {
    upstream: model("The upstream, by its name.", { examples: ["openai"] }),
    from: moment("Only calls that ended at or after this time: an RFC 3339 time, or a day in UTC.", {
      examples: ["2026-11-20T09:00:00Z"],
    }),
    to: moment(`Only calls that ended before this time, at most ${MAX_DAYS} days after \`from\`.`, {
      examples: ["2026-11-20T10:00:00Z"],
    }),
  },
)

const Tokens = Type.Integer()
const doubtful = (description: string) =>
  Type.Object({ calls: Count, prompt_tokens: Tokens, completion_tokens: Tokens }, { description })

export const ReconciledSums = Type.Object({
  from: { ...Time, description: "When the step starts." },
  model: text("The model, by the name that clients use."),
  operation: choice(operationNames, "Providers report embeddings apart from the other operations."),
  upstream_key: nullable(text("The name of the upstream's key; null for an upstream with a single key.")),
  calls: { ...Count, description: "Calls with a charge or with usage. They count when they ended." },
  prompt_tokens: Type.Integer({ description: "Including cached tokens." }),
  cached_tokens: Tokens,
  completion_tokens: Tokens,
  cost: usd("At the configured prices, without the price multipliers of the accounts."),
  prices: Type.Object(
    { input: Money, cached_input: Money, output: Money },
    { description: "The highest prices of the calls, in USD per million tokens." },
  ),
  attempts: { ...Count, description: "Attempts that failed or gave no answer." },
  estimated: doubtful("Calls whose tokens are estimates in part or in whole."),
  cut: doubtful(
    "Other calls that were cut, or were released although the provider may have worked on them; the latter are not in `calls`.",
  ),
  boundary: doubtful("Other calls that started or ended within a minute of the bounds of the step."),
})
export type ReconciledSums = Static<typeof ReconciledSums>

export const ReconciliationBody = Type.Object({
  from: Time,
  to: Time,
  data: Type.Array(ReconciledSums, {
    description: "One entry for each step, model, operation and key of the upstream with calls or attempts.",
  }),
})
export type ReconciliationBody = Static<typeof ReconciliationBody>

/** Throws `invalid_request` for a range that is empty or too long. */
export function checkRange(from: Date, to: Date): void {
  if (from >= to) throw invalidField("from", "a time before `to`")
  if (to.getTime() - from.getTime() > MAX_DAYS * STEP_MS.day)
    throw invalidField("from", `a time at most ${MAX_DAYS} days before \`to\``)
}

/** The longest time that an export may be of, and the most results of steps, models and keys. */
export const MAX_EXPORT_DAYS = 366
export const MAX_USAGES = 20_000
const MAX_UPSTREAMS = 100

const pairs = (description: string, examples: readonly object[]) =>
  Type.Record(Type.String(), Type.String(), {
    description,
    examples: [...examples],
    [EXPECTED]: "an object whose values are names",
  })

/** Providers say what a page has. */
const Page = Type.Object({}, { additionalProperties: true })

export const NewReconciliation = requestBody({
  provider: oneOf(providers, "The provider of the export."),
  export: Type.Union([Page, Type.Array(Page), Type.String()], {
    description:
      "The export: a page of the provider's usage API, an array of pages, or the text of a CSV file.",
    [EXPECTED]: "a page, an array of pages, or a text",
  }),
  ...optional({
    upstreams: Type.Array(line(256, "The name of an upstream."), {
      minItems: 1,
      maxItems: MAX_UPSTREAMS,
      description: "The upstreams of this provider. Default: the one with its name.",
      [EXPECTED]: `an array of 1 to ${MAX_UPSTREAMS} names`,
    }),
    models: pairs("Our names of their models, where they differ by more than a date.", [
      { "gpt-5-mini-2025-08-07": "fast" },
    ]),
    keys: pairs("Also compares by key: our names for the ids of their keys.", [{ key_4f1: "team1" }]),
  }),
})
export type NewReconciliation = Static<typeof NewReconciliation>

const counted = { prompt_tokens: Tokens, cached_tokens: Tokens, completion_tokens: Tokens }
const Cost = nullable(Money, "At our prices; null without a price.")
const Explained = Type.Object(
  recordOf(causes, () => Money),
  { description: "What can explain how much of the difference." },
)

/** One step of a model and a key. Amounts are at our prices of input, cached input and output. */
export const ReconciledRow = Type.Object({
  from: { ...Time, description: "When the step starts." },
  model: Type.String(),
  key: nullable(Type.String(), "Our name of the provider's key; null if keys are not compared."),
  state: Type.Unsafe<ComparedState>(
    choice(
      comparedStates,
      "`no_data`: the export does not cover the step. `too_young`: it ended less than 24 hours ago. `not_sold`: there is no call to the model.",
    ),
  ),
  theirs: nullable(Type.Object({ ...counted, requests: nullable(Count), cost: Cost })),
  ours: nullable(Type.Object({ ...counted, calls: Count, cost: Cost })),
  difference: nullable(Money, "Theirs less ours; null for a step that is not compared."),
  explained: nullable(Explained),
  unexplained: nullable(Money),
})
export type ReconciledRow = Static<typeof ReconciledRow>

export const ComparedUsage = Type.Object({
  rows: Type.Array(ReconciledRow),
  theirs: usd("Sum of the steps that are compared."),
  ours: Money,
  difference: Money,
  explained: Explained,
  unexplained: usd("The sum of the amounts, whether above or below 0."),
  unmatched: usd("`unexplained` and what is from elsewhere: usage that no call of ours accounts for."),
  unmatched_percent: Type.Number({ description: "In percent of the larger of `theirs` and `ours`." }),
  has_more: Type.Boolean({ description: "True if the export says that it has more pages." }),
})
export type ComparedUsage = Static<typeof ComparedUsage>

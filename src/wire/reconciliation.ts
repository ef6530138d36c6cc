import { type Static, Type } from "@sinclair/typebox"
import { Count, Money, Time, usd } from "./admin.ts"
import { operationNames } from "./call.ts"
import { invalidField } from "./fault.ts"
import { nullable, text } from "./field.ts"
import { model, moment, query, word } from "./parameter.ts"

/** `GET /admin/reconciliation`: sums to compare with a provider's usage report (D98). */

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
  operation: Type.String({
    enum: [...operationNames],
    description: "Providers report embeddings apart from the other operations.",
  }),
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
  attempts: { ...Count, description: "Attempts that did not answer." },
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

import { DEFAULT_DAYS, type Grouping, MAX_DAYS, MAX_DAYS_BY_HOUR } from "../../wire/usage-query.ts"
import type { UsageReport } from "../../wire/usage-report.ts"
import type { Parameter } from "../openapi.ts"

/** What the sums of usage are asked by. */
export function rangeParameters(words: readonly Grouping[]): readonly Parameter[] {
  const most = words.includes("hour") ? `${MAX_DAYS} (${MAX_DAYS_BY_HOUR} by hour)` : `${MAX_DAYS}`
  return [
    {
      name: "from",
      in: "query",
      description: `The start of the range, inclusive: an RFC 3339 time, or a day, which starts at midnight UTC. Default: ${DEFAULT_DAYS} UTC days, the last of them the day in which the range ends. Maximum number of days before \`to\`: ${most}.`,
      schema: { type: "string" },
      example: "2026-11-01",
    },
    {
      name: "to",
      in: "query",
      description: "The end of the range, exclusive. Default: now.",
      schema: { type: "string" },
      example: "2026-12-01",
    },
    {
      name: "by",
      in: "query",
      description: "What to group by.",
      schema: { type: "string", enum: [...words], default: "day" },
    },
  ]
}

const day = {
  calls: 412,
  prompt_tokens: 61_800,
  cached_tokens: 10_240,
  completion_tokens: 90_640,
  charge: "0.194426",
  overage: "0",
}

export const usageExample = {
  from: "2026-11-20T00:00:00.000Z",
  to: "2026-11-22T00:00:00.000Z",
  by: "day",
  data: [
    { group: "2026-11-20", name: null, ...day },
    { group: "2026-11-21", name: null, ...day },
  ],
  left_out: 0,
  total: {
    calls: 824,
    prompt_tokens: 123_600,
    cached_tokens: 20_480,
    completion_tokens: 181_280,
    charge: "0.388852",
    overage: "0",
  },
} satisfies UsageReport

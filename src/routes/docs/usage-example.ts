import type { OperatorUsageReport, UsageReport } from "../../wire/usage-report.ts"

const NONE = {
  cache_write: 0,
  cache_write_1h: 0,
  reasoning: 0,
  audio_input: 0,
  audio_output: 0,
  image_input: 0,
  web_search: 0,
}

const day = {
  calls: 412,
  prompt_tokens: 61_800,
  cached_tokens: 10_240,
  completion_tokens: 90_640,
  charge: "0.194426",
  overage: "0",
  buckets: { ...NONE, reasoning: 41_210 },
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
    buckets: { ...NONE, reasoning: 82_420 },
  },
} satisfies UsageReport

/** Of an account without a margin. */
const operatorDay = { ...day, cost: day.charge, profit: "0" }

export const operatorUsageExample = {
  ...usageExample,
  data: usageExample.data.map((sums) => ({ ...sums, ...operatorDay })),
  total: { ...usageExample.total, cost: usageExample.total.charge, profit: "0" },
} satisfies OperatorUsageReport

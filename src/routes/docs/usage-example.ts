import type { UsageReport } from "../../wire/usage-report.ts"

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

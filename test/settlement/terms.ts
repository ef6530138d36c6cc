import type { Verdict } from "../../src/settlement/decide.ts"

/** How calls of these tests are estimated. */
export const terms = {
  bytes_per_token: 4,
  prompt_tokens_estimate: 0,
  estimate_prompt: "client_cut",
  estimate_output: true,
} as const

export type Settled = Extract<Verdict, { outcome: "settled" }>

/** A call that is settled by its usage, unless these parts say otherwise. */
export function settledBy(parts: Partial<Settled>): Settled {
  return {
    outcome: "settled",
    basis: "usage",
    reported: null,
    estimated: { prompt_tokens: 0, completion_tokens: 0 },
    failure: null,
    notes: [],
    ...parts,
  }
}

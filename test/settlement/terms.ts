/** How calls of these tests are estimated. */
export const terms = {
  bytes_per_token: 4,
  prompt_tokens_estimate: 0,
  estimate_prompt: "client_cut",
  estimate_output: true,
} as const

/** The counts of a usage without its parts, in the words of chat completions. */
export const chatSums = (prompt_tokens: number, completion_tokens: number, total_tokens: number) => ({
  prompt_tokens,
  completion_tokens,
  total_tokens,
})

/** The same in the words of responses. */
export const sums = (input_tokens: number, output_tokens: number, total_tokens: number) => ({
  input_tokens,
  output_tokens,
  total_tokens,
})

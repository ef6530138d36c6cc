/** JSON texts of `usage` values that are not valid (D1). test/usage/reading.test.ts has more. */
export const INVALID_USAGE: readonly (readonly [why: string, text: string])[] = [
  ["an array", "[]"],
  ["a string", '"9"'],
  ["an empty object", "{}"],
  ["no completion_tokens", '{"prompt_tokens":9}'],
  ["prompt_tokens a string", '{"prompt_tokens":"9","completion_tokens":5}'],
  ["completion_tokens infinite", '{"prompt_tokens":9,"completion_tokens":1e400}'],
]

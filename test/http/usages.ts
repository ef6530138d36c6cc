/** JSON texts of `usage` values that are there and not valid (D1): each has its reason before it. */
export const INVALID_USAGE: readonly (readonly [why: string, text: string])[] = [
  ["an array", "[]"],
  ["a string", '"9"'],
  ["a number", "9"],
  ["true", "true"],
  ["false", "false"],
  ["an empty object", "{}"],
  ["no completion_tokens", '{"prompt_tokens":9}'],
  ["no prompt_tokens", '{"completion_tokens":9}'],
  ...[
    ["a string", '"9"'],
    ["an empty string", '""'],
    ["a fraction", "9.5"],
    ["negative", "-1"],
    ["true", "true"],
    ["null", "null"],
    ["an array", "[9]"],
    ["an object", '{"value":9}'],
    ["infinite", "1e400"],
    ["2^53", "9007199254740992"],
    ["over the cap", "100000001"],
  ].flatMap(([why, text]): [string, string][] => [
    [`prompt_tokens ${why}`, `{"prompt_tokens":${text},"completion_tokens":5}`],
    [`completion_tokens ${why}`, `{"prompt_tokens":9,"completion_tokens":${text}}`],
  ]),
]

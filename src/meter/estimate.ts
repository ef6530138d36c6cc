/** Tokens estimated from UTF-8 bytes of output: rounded down, at least one (rule 2, D6). */
export function estimateTokens(bytes: number, bytes_per_token: number): number {
  return Math.max(1, Math.floor(bytes / bytes_per_token))
}

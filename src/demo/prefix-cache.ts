/** Tokens per block. A prompt is cached block by block, as at real providers, whose blocks are larger. */
const BLOCK_TOKENS = 8
const MAX_BLOCKS = 10_000
/** Blocks of one prompt that are looked at; no conversation may push all others out. */
const MAX_PROMPT_BLOCKS = 1_000

/** Which beginnings of prompts were seen before. Bounded: the oldest are forgotten first. */
export class PrefixCache {
  readonly #seen = new Set<bigint>()

  /** How many tokens at the beginning of this prompt are cached. Afterwards all of its whole blocks are. */
  cachedTokens(prompt: readonly string[]): number {
    let hash = 0n
    let cached_blocks = 0
    const blocks = Math.min(Math.floor((prompt.length - 1) / BLOCK_TOKENS), MAX_PROMPT_BLOCKS)
    for (let block = 0; block < blocks; block++) {
      const start = block * BLOCK_TOKENS
      const text = prompt.slice(start, start + BLOCK_TOKENS).join("\0")
      hash = Bun.hash.wyhash(text, hash)
      if (cached_blocks === block && this.#seen.delete(hash)) cached_blocks += 1
      this.#seen.add(hash)
    }
    for (const oldest of this.#seen) {
      if (this.#seen.size <= MAX_BLOCKS) break
      this.#seen.delete(oldest)
    }
    return cached_blocks * BLOCK_TOKENS
  }
}

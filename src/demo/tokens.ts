/** Tokens of at most four characters, after at most one white space: deterministic, and linear in the text. */
const TOKEN = /\s?\S{1,4}|\s/gu

export function tokensOf(text: string): string[] {
  return text.match(TOKEN) ?? []
}

/** Tokens of a conversation besides its texts: a frame around every message, and one for the answer. */
const FRAME_TOKENS = 3

/** The tokens of a prompt, message by message; the same beginning of a conversation gives the same beginning here. */
export function promptTokens(prompt: Prompt): string[] {
  const frame = Array.from({ length: FRAME_TOKENS }, () => "")
  const messages = Array.isArray(prompt.messages) ? prompt.messages : []
  return [prompt.tools, prompt.system, ...messages]
    .filter((part) => part !== undefined && part !== null)
    .flatMap((part) => [...frame, ...tokensOf(textOf(part))])
    .concat(frame)
}

/** The counted parts of a request; each field as loose as clients send it. */
export interface Prompt {
  readonly messages?: unknown
  readonly system?: unknown
  readonly tools?: unknown
}

/** The text of a message, a part or a list of parts; whatever has no text counts as its JSON. */
export function textOf(part: unknown): string {
  if (typeof part === "string") return part
  if (Array.isArray(part)) return part.map(textOf).join("\n")
  if (typeof part !== "object" || part === null) return JSON.stringify(part) ?? ""
  if ("content" in part) return textOf(part.content)
  if ("text" in part) return textOf(part.text)
  return JSON.stringify(part)
}

/** Tokens per block. A prompt is cached block by block, as at real providers, whose blocks are larger. */
const BLOCK_TOKENS = 8
const MAX_BLOCKS = 10_000
/** The most blocks of one prompt, so that one conversation cannot push out all others. */
const MAX_PROMPT_BLOCKS = 1_000

/** The beginnings of prompts that the provider has seen. Its size is limited: the oldest are dropped first. */
export class PrefixCache {
  readonly #seen = new Set<bigint>()

  /** The number of cached tokens at the beginning of this prompt. Caches all of its whole blocks. */
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

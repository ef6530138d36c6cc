/**
 * The demo's tokens: at most four characters other than white space, with at most one white space before them. No real
 * model counts like this, but it is deterministic, linear in the text, and close enough to be believable.
 */
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

/** What is counted of a request; each field as loose as clients send it. */
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

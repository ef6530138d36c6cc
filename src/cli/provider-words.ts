import type { Credential, Upstream } from "../config/config.ts"
import { errorObject, redacted } from "../upstream/refusal.ts"
import type { FindingVerdict } from "./finding.ts"

/** Words of `tollgate check` for a provider's refusal, and for settings that cause one. */

const MAX_CHARACTERS = 200

/** The provider's error message, after a colon and without the upstream's secrets; `""` if there is none. */
export function quotedMessage(body: string, secrets: readonly string[]): string {
  const { message } = errorObject(body)
  if (typeof message !== "string" || message.trim() === "") return ""
  const text = redacted(message.replace(/\s+/g, " ").trim(), secrets)
  return `: ${text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text}`
}

export const LATER = "Try again later, or ask the provider."

export const UNREAD_FIX = "Ask the provider what the numbers cost, and report the names to the project."
export const UNEXPLAINED_FIX =
  "If the provider reports thinking only in the total, set `usage: gemini` at the upstream."

/** Messages about a wrong key whose status is not about keys (Gemini). */
const WRONG_KEY = /\bapi[ _]key[ _](?:not[ _]valid|invalid|expired)/i

/** A refusal of the key or the account. A 402 and messages about an empty account are not about the key itself. */
export function keyVerdict(
  { name, secrets }: Upstream,
  key: Credential,
  status: number,
  body: string,
): FindingVerdict {
  const is_key = status === 401 || status === 403 || WRONG_KEY.test(body)
  const found = `refuses the ${is_key ? "key" : "account"} (status ${status})${quotedMessage(body, secrets)}`
  if (key.api_key === null) return [found, `Set upstreams.${name}.api_key.`]
  const correct = `Correct ${key.name === "" ? `upstreams.${name}.api_key` : "this key"}.`
  return [found, is_key ? correct : `Settle the account at the provider. ${correct}`]
}

/** The fault in the path of a `base_url` without a model list; null if the path may be right. */
export function misplacedPath({
  name,
  family,
  base_url,
}: Upstream): readonly [found: string, fix: string] | null {
  const setting = `upstreams.${name}.base_url`
  if (family === "messages" && base_url.endsWith("/v1"))
    return [
      "base_url ends with /v1, and the gateway appends /v1/messages to it",
      `Remove /v1 from the end of ${setting}.`,
    ]
  if (family === "chat" && new URL(base_url).pathname === "/")
    return [
      "base_url has no path, and the gateway appends /chat/completions to it",
      `Add the path of the provider's API to ${setting}: usually /v1.`,
    ]
  return null
}

import type { Credential, Upstream } from "../config/config.ts"
import { errorObject, redacted } from "../upstream/refusal.ts"

/** What `tollgate check` says of a provider's refusal, and of settings that cause one. */

const MAX_CHARACTERS = 200

/** The provider's own words, behind a colon and without the upstream's secrets; `""` for none. */
export function said(body: string, secrets: readonly string[]): string {
  const { message } = errorObject(body)
  if (typeof message !== "string" || message.trim() === "") return ""
  const text = redacted(message.replace(/\s+/g, " ").trim(), secrets)
  return `: ${text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text}`
}

export const LATER = "Try again later, or ask the provider."

/** A 402, and the words of an account that is empty, are not about the key itself. */
export function refusedThing(status: number): "key" | "account" {
  return status === 401 || status === 403 ? "key" : "account"
}

export function keyFix(status: number, { name }: Upstream, key: Credential): string {
  if (key.api_key === null) return `Set upstreams.${name}.api_key.`
  const correct = `Correct ${key.name === "" ? `upstreams.${name}.api_key` : "this key"}.`
  return refusedThing(status) === "key" ? correct : `Settle the account at the provider. ${correct}`
}

/** What is wrong with the path of a `base_url` that has no model list, and what to do; null if it may be right. */
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

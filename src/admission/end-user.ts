import { isObject } from "../wire/usage.ts"

/** The names of end users (D94). */

/** Maximum bytes of a name. A longer one in a body is kept as its hash. */
export const MAX_END_USER = 256

export function nameIn(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null
}

/** Text without control characters and lone surrogates, which the database would refuse. */
const VISIBLE = /^[^\p{C}]+$/u

/** The name of an end user in the ledger. A body's name that is too long or not visible is replaced by its hash. */
export function endUserName(name: string): string {
  if (Buffer.byteLength(name) <= MAX_END_USER && VISIBLE.test(name)) return name
  return `sha256:${new Bun.CryptoHasher("sha256").update(name).digest("hex")}`
}

const OLDER_FORM = /^(user_[0-9a-f]{1,64})_account_([0-9a-f-]{0,36})_session_[0-9a-f-]{0,36}$/

/** The person in a `metadata.user_id`, without the session that Claude Code adds (D65). */
export function withoutSession(user_id: string): string {
  const [, user, account] = OLDER_FORM.exec(user_id) ?? []
  if (user !== undefined) return account || user
  if (!user_id.startsWith("{") || !user_id.includes('"session_id"')) return user_id
  try {
    const parts: unknown = JSON.parse(user_id)
    if (!isObject(parts)) return user_id
    const { session_id: _, ...person } = parts
    return nameIn(person.account_uuid) ?? nameIn(person.device_id) ?? JSON.stringify(person)
  } catch {
    return user_id
  }
}

/** The possible names in the ledger for a client's text. */
export function endUserNames(text: string): readonly string[] {
  return [...new Set([endUserName(text), endUserName(withoutSession(text))])]
}

import type { OidcSettings } from "../config/oidc.ts"
import { type Role, roles } from "../wire/roles.ts"
import { isObject } from "../wire/usage.ts"

/** Claims of an ID token or of the provider's UserInfo. */
export type Claims = Readonly<Record<string, unknown>>

/** Before the name of a person whom a provider signed in. Operators with tokens cannot have a colon in theirs (D101). */
export const OIDC = "oidc:"

export interface Person {
  /** Begins with `OIDC`. */
  readonly name: string
  /** Null for nobody that this gateway knows. */
  readonly role: Role | null
}

/** In the log's column: on one line, and no longer than this. */
const VISIBLE = /^[^\p{C}]+$/u
const NAME_CHARACTERS = 200

/** The person of claims whose `sub` is from `issuer`; null if no name can be made of them. */
export function personOf(claims: Claims, settings: OidcSettings): Person | null {
  const { issuer, name_claim, role_claim, allowed } = settings
  const [named] = valuesOf(claims, name_claim)
  const name = named ?? `${claims.sub} (${new URL(issuer).host})`
  if (name.length > NAME_CHARACTERS || !VISIBLE.test(name)) return null
  const is_allowed = allowed === null || allowed.includes(name)
  const given = is_allowed ? valuesOf(claims, role_claim).map((value) => roleOf(value, settings)) : []
  return { name: OIDC + name, role: roles.findLast((role) => given.includes(role)) ?? null }
}

function roleOf(value: string, { roles: by_value }: OidcSettings): Role | null {
  return (Object.hasOwn(by_value, value) && by_value[value]) || null
}

/** The texts of a claim, by its name or its path. An email that the provider has not verified is none. */
export function valuesOf(claims: Claims, claim: string): readonly string[] {
  // Some providers send the flag as a text.
  if (claim === "email" && String(claims.email_verified) !== "true") return []
  const found = Object.hasOwn(claims, claim)
    ? claims[claim]
    : claim.split(".").reduce<unknown>((value, part) => (isObject(value) ? value[part] : undefined), claims)
  return (Array.isArray(found) ? found : [found]).filter((value) => typeof value === "string")
}

import type { KeyBody } from "../wire/admin.ts"

export type KeyState = "active" | "suspended" | "expired" | "revoked"

/** The state of a key. If several apply, the most permanent one. */
export function keyState(
  key: Pick<KeyBody, "revoked_at" | "expires_at" | "suspended">,
  now_ms: number,
): KeyState {
  if (key.revoked_at !== null) return "revoked"
  if (key.expires_at !== null && Date.parse(key.expires_at) <= now_ms) return "expired"
  return key.suspended ? "suspended" : "active"
}

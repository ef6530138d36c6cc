import type { KeyBody } from "./admin.ts"

/** The state of a key. If several apply, the most permanent one. */
export function keyState(
  {
    revoked_at,
    expires_at,
    suspended,
  }: Pick<KeyBody, "expires_at" | "suspended"> & { revoked_at?: string | null },
  now_ms: number,
) {
  if (revoked_at) return "revoked"
  if (expires_at !== null && Date.parse(expires_at) <= now_ms) return "expired"
  return suspended ? "suspended" : "active"
}

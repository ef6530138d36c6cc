/** The roles of operators (D101), the least first. Each may do what those before it may. */
export const roles = ["read", "support", "billing", "admin"] as const
export type Role = (typeof roles)[number]
/** The role in the log: also that of the holder of a key, who changes keys of the account (D104). */
export const recordedRoles = [...roles, "holder"] as const
export type RecordedRole = (typeof recordedRoles)[number]

/** True if `role` includes the rights of `least`. */
export function includesRole(role: Role, least: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(least)
}

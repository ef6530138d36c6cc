/** The roles of operators (D101), the least first. Each may do what those before it may. */
export const roles = ["read", "support", "billing", "admin"] as const
export type Role = (typeof roles)[number]

/** True if `role` includes the rights of `least`. */
export function includesRole(role: Role, least: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(least)
}

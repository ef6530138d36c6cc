import type { Role } from "../../wire/roles.ts"

/**
 * The least role for a route that is no GET (D101) or opens a session (D103). `role` is enough for a body with only
 * `fields`.
 */
interface Rights {
  readonly role: Role
  readonly fields?: readonly string[]
  /** The role for other fields. */
  readonly others?: Role
  /** False for a route that only reads; it is not in the log (D102). */
  readonly is_change?: boolean
}

const SUSPEND = { role: "support", fields: ["suspended"], others: "billing" } as const
const BILLING = { role: "billing" } as const
const ADMIN = { role: "admin" } as const

export const rights: Readonly<Record<string, Rights>> = {
  "POST /admin/session": { role: "read" },
  "DELETE /admin/session": { role: "read" },
  "GET /admin/oidc/callback": { role: "read" },
  "POST /admin/accounts": BILLING,
  "PATCH /admin/accounts/:id": SUSPEND,
  "POST /admin/accounts/:id/keys": BILLING,
  "PATCH /admin/keys/:id": SUSPEND,
  "POST /admin/keys/:id/rotate": BILLING,
  "DELETE /admin/keys/:id": { role: "support" },
  "POST /admin/accounts/:id/credits": BILLING,
  "POST /admin/credits/:id/void": BILLING,
  "POST /admin/accounts/:id/budgets": BILLING,
  "PATCH /admin/budgets/:id": BILLING,
  "POST /admin/budgets/:id/reset": BILLING,
  "DELETE /admin/budgets/:id": BILLING,
  "POST /admin/accounts/:id/prices": BILLING,
  "POST /admin/prices/:id/end": BILLING,
  "POST /admin/price-lists": BILLING,
  "PATCH /admin/price-lists/:id": BILLING,
  "POST /admin/price-lists/:id/assignments": BILLING,
  "POST /admin/assignments/:id/end": BILLING,
  "POST /admin/accounts/:id/move": ADMIN,
  "POST /admin/accounts/:id/forget-end-user": ADMIN,
  "POST /admin/sinks": ADMIN,
  "PATCH /admin/sinks/:id": ADMIN,
  "POST /admin/sinks/:id/rotate": ADMIN,
  "POST /admin/sinks/:id/replay": ADMIN,
  "DELETE /admin/sinks/:id": ADMIN,
  "POST /admin/operators": ADMIN,
  "POST /admin/operators/:id/rotate": ADMIN,
  "DELETE /admin/operators/:id": ADMIN,
  "POST /admin/sessions/end": ADMIN,
  "POST /admin/sums/check": ADMIN,
  "POST /admin/journal/check": { role: "read", is_change: false },
  "POST /admin/reconciliation": { role: "read", is_change: false },
  "POST /admin/journal/dump": { role: "admin", is_change: false },
  "POST /admin/journal/dumped": ADMIN,
  "POST /admin/journal/drop": ADMIN,
}

const READING: Rights = { role: "read", is_change: false }

/** The rights that a route needs. Throws for a route that is not in the table, so that no route is open by mistake. */
export function rightsFor(method: string, route: string): Rights {
  const is_get = method === "GET" || method === "HEAD"
  const found = rights[`${is_get ? "GET" : method} ${route}`]
  if (found === undefined && is_get) return READING
  if (found === undefined) throw new Error(`no role is set for ${method} ${route}`)
  return found
}

export function roleFor({ role, fields, others }: Rights, body: unknown): Role {
  if (fields === undefined || others === undefined || typeof body !== "object" || body === null) return role
  return Object.keys(body).every((name) => fields.includes(name)) ? role : others
}

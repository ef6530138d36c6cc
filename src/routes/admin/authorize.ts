import { timingSafeEqual } from "node:crypto"
import { checksumHolds, hashOf, OPERATOR_PREFIX } from "../../admission/key.ts"
import { GatewayError } from "../../errors.ts"
import type { Actor } from "../../ledger/accounts/operators.ts"
import { unescaped } from "../../wire/host.ts"
import { includesRole, type Role } from "../../wire/roles.ts"
import { errorOf, found } from "../reference/operation.ts"
import { NO_TOKEN } from "../reference/routes.ts"
import type { Operators } from "./operators.ts"

export type SessionRequest = { readonly request: Request }

/** Names for the holder of the gateway's configured token, and for a command that uses the database directly. */
export const NAMES: readonly string[] = ["configured", "database"]

const actors = new WeakMap<Request, Actor>()

/** The sender of a request. Call it only after a hook below has let the request in. */
export function actorOf(request: Request): Actor {
  const actor = actors.get(request)
  if (actor === undefined) throw new Error("the request was not authorized")
  return actor
}

/** True if a hook has already let the request in, because hooks run before and after the body is read. */
export function isAuthorized(request: Request): boolean {
  return actors.has(request)
}

export function authorized(request: Request, actor: Actor): void {
  actors.set(request, actor)
}

const REASON_HEADER = "x-tollgate-reason"
/** Maximum length of a reason, in the log and in bodies. */
const REASON_CHARACTERS = 500

/** The reason in the header of a request, percent-encoded UTF-8 or plain; null for none. */
export function reasonOf({ headers }: Request): string | null {
  const given = headers.get(REASON_HEADER)
  if (given === null || given === "") return null
  const is_encoded = /^(?:[^%]|%[2-9A-Fa-f][0-9A-Fa-f])*$/.test(given)
  return [...(is_encoded ? unescaped(given) : given)].slice(0, REASON_CHARACTERS).join("")
}

export function authorOf(request: Request, reason: string | undefined) {
  return { actor: actorOf(request).name, reason: reason ?? reasonOf(request) }
}

/** Throws without the admin token (D15) or an operator's, which is looked up for each request (D101). */
export function operatorsOnly(operators: Operators, admin_token: string) {
  const expected = digest(admin_token)
  const configured: Actor = { name: operators.actor ?? "configured", role: "admin", operator_id: null }
  return async ({ request }: SessionRequest): Promise<void> => {
    const [, given] = /^Bearer +(\S+) *$/i.exec(request.headers.get("authorization") ?? "") ?? []
    if (given === undefined) throw errorOf(NO_TOKEN)
    if (timingSafeEqual(digest(given), expected)) return authorized(request, configured)
    const actor = checksumHolds(given, OPERATOR_PREFIX)
      ? await operators.ledger.operatorOfToken(hashOf(given))
      : null
    authorized(request, found(actor, NO_TOKEN))
  }
}

/** Throws unless the operator of the request has a role that includes `least`. */
export function checkRole(request: Request, least: Role): void {
  const { role } = actorOf(request)
  if (!includesRole(role, least)) throw new GatewayError("role_required", { message: roleWords(least, role) })
}

export const roleWords = (least: Role, role: Role) =>
  `This needs the role ${least}. Your role is ${role}. Ask an operator with the role admin.`

/** A comparison in constant time needs equal lengths. Digests have one, and hide the length of the secret. */
function digest(secret: string): Buffer {
  return new Bun.CryptoHasher("sha256").update(secret).digest()
}

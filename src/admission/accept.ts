import type { Config } from "../config/config.ts"
import { type ErrorCode, GatewayError } from "../errors.ts"
import {
  type CallLedger,
  LedgerBusy,
  LedgerUnavailable,
  type Owner,
  type Standing,
} from "../ledger/entries.ts"
import type { InFlight } from "./in-flight.ts"
import { checksumHolds } from "./key.ts"
import type { KeyLoads } from "./key-loads.ts"
import type { Memory, MemoryPart } from "./memory.ts"
import { arrivedBytes } from "./unread-bodies.ts"

/** The parts of the gateway that accept a request by its headers. */
export interface Accepting {
  readonly ledger: Pick<CallLedger, "owner" | "standing">
  readonly in_flight: InFlight
  readonly key_loads: KeyLoads
  readonly memory: Memory
  readonly config: Pick<Config, "limits">
  readonly sockets: { address(request: Request): string }
}

/** An accepted request, which may send its body: its owner, and its slot among the running calls. */
export interface Accepted {
  readonly key_hash: string
  readonly owner: Owner
  /** The memory for its body (D77). */
  readonly memory: MemoryPart
  /** Releases its slot, its memory and the slot of its key. Called once. */
  releaseSlot(): void
}

/**
 * Accepts a call by its headers, before its body is read (D30): checks its key, then the limits of the process and of
 * the key (D33, D38, D91), in which it counts from now on. A key that was valid at its last look-up needs no query,
 * because the statement that holds checks it again (D26). Throws `invalid_api_key`, `key_suspended`,
 * `account_suspended`, `overloaded` or `rate_limited`.
 */
export function acceptCall(
  gateway: Accepting,
  key: string,
  key_hash: string,
  request: Request,
): Accepted | Promise<Accepted> {
  const owner = gateway.ledger.owner(key_hash)
  if (owner !== null) return acceptAs(gateway, key_hash, owner)
  if (!checksumHolds(key)) throw new GatewayError("invalid_api_key")
  return acceptUnknown(gateway, key_hash, request)
}

async function acceptUnknown(gateway: Accepting, key_hash: string, request: Request): Promise<Accepted> {
  const standing = usable(await standingOf(gateway, key_hash, request))
  return acceptAs(gateway, standing.current_hash ?? key_hash, standing)
}

/**
 * The standing of a request's key. Nobody reads the body meanwhile. Throws `overloaded` if too many bytes of bodies
 * wait.
 */
export async function standingOf(
  { ledger, memory, sockets }: Pick<Accepting, "ledger" | "memory" | "sockets">,
  key_hash: string,
  request: Request,
): Promise<Standing | null> {
  const is_remembered = ledger.owner(key_hash) !== null
  const done = memory.wait(request.headers, is_remembered ? null : sockets.address(request))
  let arrived_bytes = 0
  try {
    const standing = await ledger.standing(key_hash)
    // Bytes count only for keys without an account. The client of a suspended, revoked or expired key is known.
    if (standing === null) arrived_bytes = await arrivedBytes(request)
    return standing
  } finally {
    done(arrived_bytes)
  }
}

function acceptAs({ in_flight, key_loads, memory, config }: Accepting, key_hash: string, owner: Owner) {
  const { limits } = config
  const { account_id, key_id } = owner
  in_flight.takeSlot(account_id, limits.in_flight)
  try {
    key_loads.checkRate(key_id, limits.per_key, "abandoned_per_minute")
    const releaseKeySlot = key_loads.takeSlot(key_id, limits.per_key)
    key_loads.count(key_id, limits.per_key)
    const part = memory.of(account_id, limits)
    return {
      key_hash,
      owner,
      memory: part,
      releaseSlot() {
        part.free()
        in_flight.releaseSlot(account_id)
        releaseKeySlot()
      },
    }
  } catch (error) {
    in_flight.releaseSlot(account_id)
    throw error
  }
}

/** The standing of a key that may call now, read from the ledger. Throws `invalid_api_key`, `key_suspended` or `account_suspended`. */
export async function usableKey(ledger: Pick<CallLedger, "standing">, key_hash: string): Promise<Standing> {
  return usable(await ledger.standing(key_hash))
}

function usable(standing: Standing | null): Standing {
  if (standing === null) throw new GatewayError("invalid_api_key")
  if (!standing.active) throw new GatewayError("invalid_api_key", { owner: standing })
  checkSuspension(standing)
  return standing
}

/** Throws if a key may not call because it or its account is suspended (D42). */
export function checkSuspension(standing: Standing): void {
  if (standing.key_suspended) throw new GatewayError("key_suspended", { owner: standing })
  if (standing.account_suspended) throw new GatewayError("account_suspended", { owner: standing })
}

/** Errors that are found after the key was accepted, and reported only if the key may still call (D30). */
const AFTER_KEY: ReadonlySet<ErrorCode> = new Set([
  "idempotency_key_reused",
  "idempotency_key_used",
  "invalid_request",
  "model_not_allowed",
  "model_not_found",
  "request_too_large",
  "tag_not_declared",
  "tag_required",
  "unsupported_media_type",
])

const OF_MODEL: ReadonlySet<ErrorCode> = new Set(["model_not_allowed", "model_not_found"])

/**
 * The error to report after a key was accepted: the ledger's error for the key comes before faults of body and model
 * (D27, D30).
 */
export async function errorAfterKeyCheck(
  ledger: Pick<CallLedger, "standing">,
  key_hash: string,
  error: unknown,
) {
  if (!(error instanceof GatewayError) || !AFTER_KEY.has(error.code)) return error
  try {
    await usableKey(ledger, key_hash)
    return error
  } catch (reason) {
    const is_silent = reason instanceof LedgerUnavailable || reason instanceof LedgerBusy
    return is_silent && !OF_MODEL.has(error.code) ? error : reason
  }
}

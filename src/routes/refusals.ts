import type { Gateway } from "../gateway.ts"
import type { Owner } from "../ledger/entries.ts"
import { faultOf } from "./routing.ts"

/**
 * Counts a call that was refused before anything was held (D80), for the key that its error names, or else for its owner if
 * that is known. Returns its error, to be thrown.
 */
export function refused({ ledger }: Pick<Gateway, "ledger">, owner: Owner | null, error: unknown): unknown {
  const { code, detail } = faultOf(error)
  const whose = detail.owner ?? owner
  ledger.refused({ owner: whose, code }, whose?.shard ?? 0)
  return error
}

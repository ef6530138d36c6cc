import type { Owner } from "../ledger/entries.ts"
import type { Gateway } from "../service/gateway.ts"
import { faultOf } from "./routing.ts"

/**
 * Counts a call that was refused before anything was held (D80), for the key that its error names, otherwise for its owner if
 * known. Returns the error, for the caller to throw.
 */
export function countRefusal(
  { ledger }: Pick<Gateway, "ledger">,
  owner: Owner | null,
  error: unknown,
): unknown {
  const { code, detail } = faultOf(error)
  const counted_owner = detail.owner ?? owner
  ledger.shard(counted_owner?.shard ?? 0).refused({ owner: counted_owner, code })
  return error
}

import type { Owner } from "../ledger/entries.ts"
import type { Gateway } from "../service/gateway.ts"
import { faultOf } from "./routing.ts"

/** Counts a call refused before a hold (D80), for its error's key or owner. Returns the error. */
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

import type { GatewayError } from "../errors.ts"
import type { Owner } from "../ledger/entries.ts"
import type { Gateway } from "../service/gateway.ts"
import { faultOf } from "./routing.ts"

/** Counts a call refused before a hold (D80), for its error's key or owner. Returns the error. */
export function countRefusal(
  { ledger }: Pick<Gateway, "ledger">,
  owner: Owner | null,
  error: unknown,
): GatewayError {
  const fault = faultOf(error)
  const refusal = { owner: fault.detail.owner ?? owner, code: fault.code }
  fault.detail.count = () => ledger.shard(refusal.owner?.shard ?? 0).refused(refusal)
  fault.detail.count()
  return fault
}

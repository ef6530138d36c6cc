import type { Call } from "../call/call.ts"
import type { End } from "../ledger/entries.ts"
import type { Log } from "../log.ts"
import { isFree, PAR_BP } from "../money.ts"
import type { Metrics } from "./metrics.ts"

const HOUR_MS = 3_600_000

/** Warns about usage that may be charged other than the provider bills it, once an hour for each model (D87, D90). */
export class UsageWarnings {
  /** The time of the last warning about each model, by the kind of warning. Models come from the configuration. */
  readonly #warned_ms = new Map<string, number>()

  note(
    call: Call,
    end: End,
    upstream: string,
    { log, metrics }: { readonly log: Log; readonly metrics: Metrics },
  ): void {
    const { details } = end
    if (details === undefined) return
    const { unread, unexplained_tokens, provider_cost_nano } = details
    const model = call.model.name
    const where = { request_id: call.hold.id, upstream, model }
    if (unread !== undefined && this.#isDue(`unread ${model}`))
      log.warn(
        { ...where, unread },
        "a provider's usage has numbers that Tollgate does not know: they were not charged",
      )
    if (unexplained_tokens !== undefined && this.#isDue(`total ${model}`))
      log.warn(
        { ...where, unexplained_tokens },
        "the parts of a provider's usage do not add up to its total: the difference was not charged",
      )
    if (provider_cost_nano === undefined || !isBelowCost(call, end, BigInt(provider_cost_nano))) return
    metrics.belowCost(model)
    if (this.#isDue(`cost ${model}`))
      log.warn(
        { ...where, charge_nano: end.charge_nano.toString(), provider_cost_nano },
        "a call was charged less than the provider says that it costs: check the prices of the model",
      )
  }

  #isDue(warning: string): boolean {
    const now_ms = performance.now()
    if (now_ms - (this.#warned_ms.get(warning) ?? Number.NEGATIVE_INFINITY) < HOUR_MS) return false
    this.#warned_ms.set(warning, now_ms)
    return true
  }
}

/** At a price multiplier of 1. */
function isBelowCost({ hold, model }: Call, { charge_nano }: End, provider_cost_nano: bigint): boolean {
  if (isFree(model.price)) return false
  return charge_nano * BigInt(PAR_BP) < provider_cost_nano * BigInt(hold.price_multiplier_bp ?? PAR_BP)
}

import type { Model } from "../config/config.ts"
import { isFree, type ServiceTier } from "../money.ts"

/** What providers call the tier that a model's own price is for. */
const OWN_TIERS: ReadonlySet<string> = new Set(["default", "standard", "on_demand"])

/** The service tier whose price counts; null for the model's own price. */
export interface ServedTier {
  readonly tier: ServiceTier | null
  /** Whether the provider served a tier that has no price. */
  readonly is_unpriced: boolean
}

const OWN: ServedTier = { tier: null, is_unpriced: false }

/**
 * D70: the price of the tier that the provider says it served. If it says none, or one without a price, the tier that was
 * asked for counts, else the model's own price.
 */
export function servedTier(model: Model, asked: string | null, served: string | null): ServedTier {
  const named = (name: string | null) => model.service_tiers.find((tier) => tier.name === name)
  if (served !== null) {
    const tier = named(served)
    if (tier !== undefined) return { tier, is_unpriced: false }
    if (OWN_TIERS.has(served)) return OWN
  }
  return { tier: named(asked) ?? null, is_unpriced: served !== null && !isFree(model.price) }
}

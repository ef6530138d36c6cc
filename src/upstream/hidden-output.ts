import type { Model } from "../config/config.ts"
import type { UsageReading } from "../wire/usage.ts"

/** The models that may generate hidden output, which is reasoning (D9). */
export class HiddenOutput {
  /** Models whose usage has counted reasoning in this process. Bounded by the models that were ever configured. */
  readonly #reported = new Set<string>()

  /** Reads a model's usage. Returns whether it counts reasoning. */
  note({ family, name }: Model, usage: UsageReading): boolean {
    const is_told = usage.state === "valid" && (usage.usage.buckets?.reasoning ?? 0) > 0
    if (is_told) this.#reported.add(`${family} ${name}`)
    return is_told
  }

  /** True if the model has a price for reasoning, or has reported some. */
  isOf({ family, name, price, service_tiers }: Model): boolean {
    return (
      price.buckets?.reasoning !== undefined ||
      service_tiers.some((tier) => tier.price.buckets?.reasoning !== undefined) ||
      this.#reported.has(`${family} ${name}`)
    )
  }
}

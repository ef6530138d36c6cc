import type { Family, Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import type { Terms } from "../ledger/entries.ts"
import type { Rate } from "../money.ts"

/** The message for a client that asks for a model of this family on the other family's path. */
const OTHER_ENTRY: Readonly<Record<Family, string>> = {
  chat: "This is a chat model. Call it with POST /v1/chat/completions.",
  messages: "This is a messages model. It supports token counting only: POST /v1/messages/count_tokens.",
}

/** The configured models by name: exact, byte for byte, in Maps, so that no name is special (D19). */
export class Catalog {
  readonly #models: Readonly<Record<Family, ReadonlyMap<string, Model>>>
  readonly #terms_ids = new Map<Model, readonly number[]>()

  /** `terms_ids` are the ledger's ids of `termsOf(models)`, in that order. */
  constructor(models: readonly Model[], terms_ids: readonly number[]) {
    let at = 0
    for (const model of models) {
      const count = termsOf([model]).length
      this.#terms_ids.set(model, terms_ids.slice(at, at + count))
      at += count
    }
    const of = (family: Family) =>
      new Map(models.filter((model) => model.family === family).map((model) => [model.name, model]))
    this.#models = { chat: of("chat"), messages: of("messages") }
  }

  /** The model of this name on the paths of `family`; the error if there is none, or if it is of the other family (D15). */
  find(name: string, family: Family): Model | GatewayError {
    const model = this.#models[family].get(name)
    if (model !== undefined) return model
    const other = family === "chat" ? "messages" : "chat"
    return this.#models[other].has(name)
      ? new GatewayError("model_not_allowed", { param: "model", message: OTHER_ENTRY[other] })
      : new GatewayError("model_not_found", { param: "model" })
  }

  /** The ids of a model's terms: for each of its routes its price and those of its tiers, then those of each service tier (D56, D62, D70). */
  termsIds(model: Model): readonly [number, ...number[]] {
    const [first, ...others] = this.#terms_ids.get(model) ?? []
    if (first === undefined) throw new Error("a model has no terms")
    return [first, ...others]
  }

  /** The models of an entry, in the configuration's order. */
  list(family: Family): readonly Model[] {
    return [...this.#models[family].values()]
  }
}

/** The terms at which the models are sold: a row of the ledger for each price of a model on each of its routes (D56, D62, D70). */
export function termsOf(models: readonly Model[]): Terms[] {
  return models.flatMap(({ family, name, price, tiers, service_tiers, routes }) =>
    routes.flatMap(({ upstream }) => {
      const terms = { family, model: name, upstream: upstream.name }
      const at = (rate: Rate, tier: Pick<Terms, "service_tier"> = {}): Terms[] => [
        { ...terms, ...tier, price: rate.price },
        ...rate.tiers.map((larger) => ({ ...terms, ...tier, ...larger })),
      ]
      return [
        ...at({ price, tiers }),
        ...service_tiers.flatMap((tier) => at(tier, { service_tier: tier.name })),
      ]
    }),
  )
}

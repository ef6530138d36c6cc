import type { Family, Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { recordOf } from "../kinds.ts"
import type { CustomerPrice, PriceTerms } from "../ledger/entries.ts"
import type { Rate } from "../money.ts"
import { type OperationName, operationNames } from "../wire/call.ts"
import { type OneOrMore, oneOrMore } from "../wire/list.ts"
import { soldAt } from "./customer-prices.ts"

/** Names of endpoints for error messages. */
const ENDPOINTS: Readonly<Record<OperationName, string>> = {
  chat: "POST /v1/chat/completions",
  embeddings: "POST /v1/embeddings",
  messages: "POST /v1/messages",
  responses: "POST /v1/responses",
}

/** Maximum number of models at customers' prices in memory; the least recently sold are dropped. */
const SOLD_LIMIT = 10_000

/**
 * The configured models by operation and name. Names are compared byte for byte (D19), in Maps, so that no name is
 * special.
 */
export class Catalog {
  readonly #models: readonly Model[]
  readonly #offers: Readonly<Record<OperationName, Map<string, Offer>>>
  /** Models at customers' prices, by shard, price and operation (D100). */
  readonly #sold = new Map<string, Promise<SoldModel>>()

  /** `terms_ids` are the ids of `termsOf(models)` in each shard of the ledger (D74), in that order. */
  constructor(models: readonly Model[], terms_ids: readonly (readonly number[])[]) {
    this.#models = models
    this.#offers = recordOf(operationNames, () => new Map())
    let at = 0
    for (const model of models) {
      const count = termsOf([model]).length / model.operations.length
      for (const operation of model.operations) {
        const [from, to] = [at, at + count]
        this.#offers[operation].set(model.name, {
          model,
          terms_ids: terms_ids.map((ids) => oneOrMore(ids.slice(from, to))),
        })
        at += count
      }
    }
  }

  /**
   * The model of this name that offers the operation; the error if there is none, or if it offers only other operations
   * (D15, D63).
   */
  find(name: string, operation: OperationName): Model | GatewayError {
    const offer = this.#offers[operation].get(name)
    if (offer !== undefined) return offer.model
    const others = operationNames.filter((other) => this.#offers[other].has(name))
    if (others.length === 0) return new GatewayError("model_not_found", { param: "model" })
    const endpoints = others.map((other) => ENDPOINTS[other])
    return new GatewayError("model_not_allowed", {
      param: "model",
      message: `This model does not support ${operation}. Call it with ${endpoints.join(" or ")}.`,
    })
  }

  /** The ids of a model's terms in a shard, for each route and service tier (D56, D62, D70). */
  termsIds({ name }: Model, operation: OperationName, shard: number): OneOrMore<number> {
    const ids = this.#offers[operation].get(name)?.terms_ids[shard]
    if (ids === undefined) throw new Error("a model has no terms")
    return ids
  }

  listed(model: Model, operation: OperationName, shard: number): SoldModel {
    return { model, terms_ids: this.termsIds(model, operation, shard) }
  }

  /** The same at a customer's prices by kind (D100). `register` runs once for all calls that wait for it. */
  sold(model: Model, operation: OperationName, shard: number, price: CustomerPrice, register: Register) {
    const key = `${shard} ${operation} ${price.id}`
    const known = this.#sold.get(key)
    const sold = known ?? this.#sell(model, operation, shard, price, register)
    this.#sold.delete(key)
    for (const oldest of this.#sold.keys()) {
      if (this.#sold.size < SOLD_LIMIT) break
      this.#sold.delete(oldest)
    }
    this.#sold.set(key, sold)
    if (known === undefined)
      sold.catch(() => {
        if (this.#sold.get(key) === sold) this.#sold.delete(key)
      })
    return sold
  }

  async #sell(
    model: Model,
    operation: OperationName,
    shard: number,
    price: CustomerPrice,
    register: Register,
  ): Promise<SoldModel> {
    const list_ids = this.termsIds(model, operation, shard)
    const sold = soldAt(model, price)
    const terms = termsOf([{ ...sold, operations: [operation] }]).map((one, at) => ({
      ...one,
      customer_price_id: price.id,
      list_terms_id: list_ids[at] ?? list_ids[0],
    }))
    const ids = await register(terms)
    return { model: sold, terms_ids: oneOrMore(ids) }
  }

  /** Forgets the terms of a customer price, because the ledger does not know them. They are then registered again. */
  forgetSold(operation: OperationName, shard: number, price: CustomerPrice): void {
    this.#sold.delete(`${shard} ${operation} ${price.id}`)
  }

  /** The same for all customer prices of a shard, because its database may have lost the rows. */
  forgetAllSold(shard: number): void {
    for (const key of this.#sold.keys()) if (key.startsWith(`${shard} `)) this.#sold.delete(key)
  }

  /** The models of a family, in the configuration's order. */
  list(family: Family): readonly Model[] {
    return this.#models.filter((model) => model.family === family)
  }
}

type Register = (terms: readonly PriceTerms[]) => Promise<readonly number[]>

/** A model as an account buys it, with the ids of its terms in the account's shard. */
interface SoldModel {
  readonly model: Model
  readonly terms_ids: OneOrMore<number>
}

interface Offer {
  readonly model: Model
  /** Of each shard. */
  readonly terms_ids: readonly OneOrMore<number>[]
}

/** One row of the ledger's terms for each operation, route and price of each model (D56, D62, D63, D70). */
export function termsOf(models: readonly Model[]): PriceTerms[] {
  return models.flatMap((model) => {
    const { family, operations, name, routes, service_tiers } = model
    return operations.flatMap((operation) =>
      routes.flatMap(({ upstream }) => {
        const terms = { family, operation, model: name, upstream: upstream.name }
        return [
          ...termsAt(model, terms),
          ...service_tiers.flatMap((tier) => termsAt(tier, { ...terms, service_tier: tier.name })),
        ]
      }),
    )
  })
}

function termsAt({ price, tiers }: Rate, terms: Omit<PriceTerms, "price">): PriceTerms[] {
  return [{ ...terms, price }, ...tiers.map((tier) => ({ ...terms, ...tier }))]
}

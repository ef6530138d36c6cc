import type { Model } from "../config/config.ts"
import type { CustomerPrice, CustomerPriceTexts, Standing } from "../ledger/entries.ts"
import { type Price, pricesIn } from "../money.ts"

/** The customer price of a model (D100), the first of: one for the model, one for all models. Undefined without one. */
export function customerPriceOf(
  prices: readonly CustomerPrice[] = [],
  { name }: Model,
): CustomerPrice | undefined {
  return prices.find(({ model }) => model === name) ?? prices.find(({ model }) => model === null)
}

/** The model at a customer's prices by kind. Other kinds keep the configured price. */
export function soldAt(model: Model, { prices }: CustomerPrice): Model {
  if (prices === null) return model
  const at = <Part extends { readonly price: Price }>(part: Part): Part => ({
    ...part,
    price: priceWith(part.price, prices),
  })
  return {
    ...at(model),
    tiers: model.tiers.map(at),
    service_tiers: model.service_tiers.map((tier) => ({ ...at(tier), tiers: tier.tiers.map(at) })),
  }
}

/** The price with a customer's prices. If cached tokens cost as much as others in the configuration, they also do here. */
function priceWith(list: Price, texts: CustomerPriceTexts): Price {
  const own = pricesIn({ input: "0", ...texts })
  const input_pico = texts.input === undefined ? list.input_pico : own.input_pico
  const cached_pico = list.cached_input_pico === list.input_pico ? input_pico : list.cached_input_pico
  const named = <Prices extends Readonly<Record<string, bigint>>>(prices: Prices, others: object = {}) => ({
    ...prices,
    ...Object.fromEntries(Object.entries(others).filter(([kind]) => Object.hasOwn(prices, kind))),
  })
  return {
    input_pico,
    cached_input_pico: texts.cached_input === undefined ? cached_pico : own.cached_input_pico,
    output_pico: texts.output === undefined ? list.output_pico : own.output_pico,
    per_call_nano: texts.per_call === undefined ? list.per_call_nano : own.per_call_nano,
    ...(list.buckets !== undefined && { buckets: named(list.buckets, own.buckets) }),
    ...(list.tool_runs !== undefined && { tool_runs: named(list.tool_runs, own.tool_runs) }),
  }
}

/** A model and the standing of a key as a hold of a call would find them now. */
export function soldNow(
  model: Model,
  standing: Standing,
): { readonly model: Model; readonly standing: Standing } {
  const price = customerPriceOf(standing.prices, model)
  if (price === undefined) return { model, standing }
  const { price_multiplier_bp: _, ...rest } = standing
  const { price_multiplier_bp } = price
  return {
    model: soldAt(model, price),
    standing: price_multiplier_bp === null ? rest : { ...rest, price_multiplier_bp },
  }
}

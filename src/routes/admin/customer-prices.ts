import { Elysia } from "elysia"
import { soldAt } from "../../admission/customer-prices.ts"
import { haveOutput, type Model } from "../../config/config.ts"
import { MAX_CUSTOMER_PRICES } from "../../ledger/accounts/customer-prices.ts"
import type { CustomerPriceTexts } from "../../ledger/entries.ts"
import { isFree } from "../../money.ts"
import { EXPIRY } from "../../wire/admin.ts"
import { PageQuery, pageOf } from "../../wire/admin-query.ts"
import { CustomerPriceBody, CustomerPriceEnd, NewCustomerPrice } from "../../wire/customer-prices.ts"
import { invalidField, invalidRequest, takenId } from "../../wire/fault.ts"
import { customerPriceBody, pageBody } from "../record-bodies.ts"
import { accepted, answer, found, page, shown } from "../reference/operation.ts"
import { NO_ACCOUNT, NO_CUSTOMER_PRICE, ofOne } from "../reference/routes.ts"
import { authorOf } from "./authorize.ts"
import type { Operators } from "./operators.ts"

/** `/admin/accounts/{id}/prices` and `/admin/prices/{id}`: the prices of one customer (D100). */
export function customerPriceRoutes(operators: Operators) {
  const { ledger } = operators
  return new Elysia({ name: "admin-customer-prices" })
    .post(
      "/accounts/:id/prices",
      async ({ params, body, request, status }) => {
        checkPrice(body, operators.models)
        const made = accepted(
          await ledger.setCustomerPrice({
            ...authorOf(request, body.reason),
            id: body.id,
            account_id: params.id,
            model: body.model ?? null,
            price_multiplier_bp: body.price_multiplier ?? null,
            prices: body.prices ?? null,
            from_at: body.from ?? null,
            until_at: body.until ?? null,
          }),
          { ...PRICE_ERRORS, no_account: NO_ACCOUNT, conflict: () => takenId("price") },
        )
        return status(made.outcome === "created" ? 201 : 200, customerPriceBody(made.price))
      },
      ofOne("account", {
        body: shown(NewCustomerPrice, {
          prices: {
            model: "gpt-5-mini",
            prices: { input: "0.2", output: "1.6" },
            from: "2027-01-01T00:00:00Z",
            until: "2028-01-01T00:00:00Z",
            reason: "Contract 118",
          },
          multiplier: { price_multiplier: "0.9" },
        }),
        response: {
          200: answer("A price with this id already exists. Nothing was changed.", CustomerPriceBody, {
            price: priced,
          }),
          201: answer("The price.", CustomerPriceBody, { prices: priced, multiplier: multiplied }),
        },
        operationId: "setCustomerPrice",
        summary: "Set a customer's price",
        description:
          "Sets the price of the account for a model or for all models: a multiplier of the configured prices, or prices by kind. It holds for calls that are held from `from` on and before `until`, by the database's clock; it replaces the account's `price_multiplier`. A price of a model comes before one of all models, and of two for the same model the one that was set later. Calls in progress keep the price that they were held at. The change is an entry of the journal.",
        invalid: "price_multiplier",
      }),
    )
    .get(
      "/accounts/:id/prices",
      async ({ params, query }) =>
        pageBody(
          found(await ledger.listCustomerPrices(params.id, pageOf(query)), NO_ACCOUNT),
          customerPriceBody,
        ),
      ofOne("account", {
        query: PageQuery,
        response: { 200: page("prices", CustomerPriceBody, priced, multiplied) },
        operationId: "listCustomerPrices",
        summary: "List a customer's prices",
        description:
          "Lists all prices of the account, newest first, also those that are over, with who set them and why.",
      }),
    )
    .post(
      "/prices/:id/end",
      async ({ params: { id }, body: { at = null, reason }, request }) => {
        const end = { at, ...authorOf(request, reason) }
        const price = found(await ledger.endCustomerPrice(id, end), NO_CUSTOMER_PRICE)
        if (price === "past") throw invalidField("at", EXPIRY)
        if (price === "of_list")
          throw invalidRequest(
            "This price is of a price list. Nothing was changed. End the list's assignment to the account.",
          )
        return customerPriceBody(price)
      },
      ofOne("price", {
        body: shown(CustomerPriceEnd, {
          now: { reason: "Contract cancelled" },
          later: { at: "2099-01-01T00:00:00Z", reason: "Contract cancelled" },
        }),
        response: {
          200: answer("The price. Nothing was changed if it was over by then.", CustomerPriceBody, {
            price: { ...priced, state: "over", ended },
            later: { ...priced, ended: { ...ended, at: "2099-01-01T00:00:00.000Z" } },
          }),
        },
        operationId: "endCustomerPrice",
        summary: "End a customer's price",
        description:
          "Ends a price from `at` on, which cannot be in the past. Calls that are held afterwards have the price that would have held without it. The end is an entry of the journal; the price itself stays there.",
        invalid: "at",
      }),
    )
}

/** Throws for a model that is not configured, and for prices that it cannot have. */
export function checkPrice(
  { model, price_multiplier, prices }: Pick<NewCustomerPrice, "model" | "price_multiplier" | "prices">,
  models: Operators["models"],
): void {
  if ((price_multiplier === undefined) === (prices === undefined))
    throw invalidField("prices", "prices, or price_multiplier in their place")
  const named = models?.filter(({ name }) => name === model)
  if (model !== undefined && named?.length === 0) throw invalidField("model", "a model of the configuration")
  if (prices === undefined) return
  if (Object.keys(prices).length === 0) throw invalidField("prices", "at least one price")
  if (model === undefined) throw invalidField("model", "the model that the prices are for")
  for (const one of named ?? []) checkKinds(one, prices)
}

/** Throws for a kind without a configured price, because no request can use it. */
function checkKinds(model: Model, prices: CustomerPriceTexts): void {
  const { buckets = {}, tool_runs = {} } = model.price
  const { input: _, cached_input: __, output, per_call: ___, tool_run = {}, ...named } = prices
  if (output !== undefined && !haveOutput(model.operations))
    throw invalidField("prices.output", "no such price, because embeddings have no output tokens")
  for (const kind of Object.keys(named))
    if (!Object.hasOwn(buckets, kind))
      throw invalidField(`prices.${kind}`, "no such price, because the model has none in the configuration")
  for (const tool of Object.keys(tool_run))
    if (!Object.hasOwn(tool_runs, tool))
      throw invalidField("prices.tool_run", "only tools that have a price in the configuration")
  const sold = soldAt(model, { id: "", model: model.name, price_multiplier_bp: null, prices })
  if (isFree(sold.price)) throw invalidField("prices", "at least one price above zero")
}

/** Errors of a price of an account, or of several (D110). */
export const PRICE_ERRORS = {
  past: () =>
    invalidRequest(
      "from: a price cannot begin before now, or end before it begins. Calls keep the price that they were held at.",
      "from",
    ),
  too_many: () =>
    invalidRequest(
      `An account can have at most ${MAX_CUSTOMER_PRICES} prices that are not over. Nothing was changed.`,
    ),
}

const priced = {
  price_multiplier: null,
  prices: { input: "0.2", output: "1.6" },
  from: "2027-01-01T00:00:00.000Z",
}
const multiplied = {
  model: null,
  price_multiplier: "0.9",
  prices: null,
  until: null,
  state: "current",
  reason: null,
}

const ended = {
  at: "2026-12-01T00:00:00.000Z",
  by: "Ann",
  reason: "Contract cancelled",
  made_at: "2026-12-01T00:00:00.000Z",
}

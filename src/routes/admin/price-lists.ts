import { Elysia } from "elysia"
import type { PriceListRecord } from "../../ledger/accounts/price-lists.ts"
import { EXPIRY } from "../../wire/admin.ts"
import { PageQuery, pageOf } from "../../wire/admin-query.ts"
import { CustomerPriceEnd, type NewCustomerPrice } from "../../wire/customer-prices.ts"
import { invalidField, invalidRequest } from "../../wire/fault.ts"
import {
  AssignedPriceList,
  AssignmentBody,
  NewAssignment,
  NewPriceList,
  PriceListBody,
  PriceListChange,
} from "../../wire/price-lists.ts"
import { assignmentBody, pageBody, priceListBody } from "../record-bodies.ts"
import { EXAMPLE_ACCOUNT } from "../reference/example.ts"
import { accepted, answer, found, page, shown } from "../reference/operation.ts"
import { NO_ASSIGNMENT, NO_PRICE_LIST, ofAccounts, ofOne } from "../reference/routes.ts"
import { authorOf } from "./authorize.ts"
import { checkPrice, PRICE_ERRORS } from "./customer-prices.ts"
import type { Operators } from "./operators.ts"

/** Time for changing accounts, less than the deadline of the command line. A repeat of the request changes the rest. */
const UPDATING_MS = 40_000

/** `/admin/price-lists`: prices that accounts share (D110). */
export function priceListRoutes({ ledger, models }: Operators) {
  const listOf = async (id: string) => found(await ledger.getPriceList(id), NO_PRICE_LIST)
  /** Gives the accounts the current list, even if it is changed meanwhile. */
  const update = async (list: PriceListRecord): Promise<void> => {
    const until_ms = performance.now() + UPDATING_MS
    let after: string | null = null
    do after = (await ledger.updateAssignments(list, after)).next
    while (after !== null && performance.now() < until_ms)
    const now = await listOf(list.id)
    if (now.version !== list.version && performance.now() < until_ms) await update(now)
  }
  const counted = async (list: PriceListRecord) => ({
    ...priceListBody(list),
    ...(await ledger.countAssignments(list)),
  })
  return new Elysia({ name: "admin-price-lists" })
    .post(
      "/price-lists",
      async ({ body, request, status }) => {
        const { id, name, prices } = body
        const author = authorOf(request, body.reason)
        const list = { id, name, prices: pricesOf(prices, models), ...author }
        const made = accepted(await ledger.createPriceList(list), LIST_REFUSALS)
        return status(made.outcome === "created" ? 201 : 200, priceListBody(made.list))
      },
      ofAccounts({
        body: shown(NewPriceList, {
          list: { name: "Partners", prices: [...requested], reason: "Partner programme" },
        }),
        response: {
          200: answer("A price list with this id already exists. Nothing was changed.", PriceListBody, {
            list,
          }),
          201: answer("The price list.", PriceListBody, { list }),
        },
        operationId: "createPriceList",
        summary: "Create a price list",
        description:
          "Makes a named list of prices for accounts to share: for a model or for all models, a multiplier of the configured prices or prices by kind. It holds for the accounts to which it is assigned.",
        invalid: "name",
      }),
    )
    .get(
      "/price-lists",
      async ({ query }) => pageBody(await ledger.listPriceLists(pageOf(query)), priceListBody),
      ofAccounts({
        query: PageQuery,
        response: { 200: page("price lists", PriceListBody, list) },
        operationId: "listPriceLists",
        summary: "List price lists",
        description: "Lists all price lists as they are now, newest first.",
      }),
    )
    .get(
      "/price-lists/:id",
      async ({ params }) => counted(await listOf(params.id)),
      ofOne("price list", {
        response: {
          200: answer("The price list.", AssignedPriceList, { list }),
        },
        operationId: "getPriceList",
        summary: "Read a price list",
        description: "Returns the list as it is now, and how many accounts have it.",
      }),
    )
    .patch(
      "/price-lists/:id",
      async ({ params, body, request }) => {
        const author = authorOf(request, body.reason)
        const change = { id: body.id, list_id: params.id, prices: pricesOf(body.prices, models), ...author }
        const { list } = accepted(await ledger.changePriceList(change), LIST_REFUSALS)
        await update(list)
        return counted(await listOf(list.id))
      },
      ofOne("price list", {
        body: shown(PriceListChange, {
          change: { prices: [{ price_multiplier: "0.85" }], reason: "Terms of 2027" },
        }),
        response: { 200: answer("The price list.", AssignedPriceList, { list: changed }) },
        operationId: "changePriceList",
        summary: "Change a price list",
        description:
          "Replaces the prices of the list for all accounts that have it now or later. Each account changes in its own transaction; equal prices stay. If `pending` in the response is not 0, or there is no response, send the change again with the same `id`. Calls in progress keep the price that they were held at. Each change is an entry of the journal.",
        invalid: "prices",
      }),
    )
    .post(
      "/price-lists/:id/assignments",
      async ({ params, body, request, status }) => {
        const list = await listOf(params.id)
        const { id, account_id, from: from_at = null, until: until_at = null } = body
        const author = authorOf(request, body.reason)
        const order = { id, account_id, from_at, until_at, ...author }
        const made = accepted(await ledger.assignPriceList(list, order), ASSIGNMENT_REFUSALS)
        const now = await listOf(list.id)
        if (now.version !== list.version) await update(now)
        return status(made.outcome === "created" ? 201 : 200, assignmentBody(made.assignment))
      },
      ofOne("price list", {
        body: shown(NewAssignment, {
          assignment: {
            account_id: EXAMPLE_ACCOUNT,
            from: "2027-01-01T00:00:00Z",
            until: "2028-01-01T00:00:00Z",
            reason: "Contract 118",
          },
        }),
        response: {
          200: answer("An assignment with this id already exists. Nothing was changed.", AssignmentBody),
          201: answer("The assignment.", AssignmentBody),
        },
        operationId: "assignPriceList",
        summary: "Assign a price list",
        description:
          "Gives an account the prices of the list for calls that are held from `from` on and before `until`: a customer price for each price of the list. A customer price of the account itself comes before one of a list for the same model, and of two lists the one that was assigned later.",
        invalid: "from",
      }),
    )
    .get(
      "/price-lists/:id/assignments",
      async ({ params, query }) =>
        pageBody(await ledger.listAssignments(await listOf(params.id), pageOf(query)), assignmentBody),
      ofOne("price list", {
        query: PageQuery,
        response: { 200: page("assignments", AssignmentBody) },
        operationId: "listAssignments",
        summary: "List the accounts of a price list",
        description: "Lists all assignments of the list, newest first, also those that are over.",
      }),
    )
    .post(
      "/assignments/:id/end",
      async ({ params: { id }, body: { at = null, reason }, request }) => {
        const end = { at, ...authorOf(request, reason) }
        const assignment = found(await ledger.endAssignment(id, end), NO_ASSIGNMENT)
        if (assignment === "past") throw invalidField("at", EXPIRY)
        return assignmentBody(assignment)
      },
      ofOne("assignment", {
        body: shown(CustomerPriceEnd, { now: { reason: "Contract cancelled" } }),
        response: {
          200: answer("The assignment. Nothing was changed if it was over by then.", AssignmentBody, {
            assignment: { state: "over" },
          }),
        },
        operationId: "endAssignment",
        summary: "End an assignment of a price list",
        description:
          "Ends all prices of the assignment from `at` on, which cannot be in the past. The end is an entry of the journal.",
        invalid: "at",
      }),
    )
}

type RequestedPrice = Pick<NewCustomerPrice, "model" | "price_multiplier" | "prices">

/** The prices of a list in the ledger's form. Throws for a model that is listed twice. */
function pricesOf(requested: readonly RequestedPrice[], models: Operators["models"]) {
  const seen = new Set<string | undefined>()
  return requested.map((price) => {
    checkPrice(price, models)
    if (seen.has(price.model))
      throw invalidField("prices", "one price for each model, and one for all models")
    seen.add(price.model)
    const { model = null, price_multiplier: price_multiplier_bp = null, prices = null } = price
    return { model, price_multiplier_bp, prices }
  })
}

const LIST_REFUSALS = {
  no_list: NO_PRICE_LIST,
  name_taken: () => invalidRequest("Another price list has this name. Nothing was changed.", "name"),
  conflict: () => idTaken("Another price list has this id."),
}

const ASSIGNMENT_REFUSALS = {
  ...PRICE_ERRORS,
  no_account: () => invalidField("account_id", "the id of an account"),
  conflict: () => idTaken("Another assignment has this id."),
}

const idTaken = (fact: string) => invalidRequest(`${fact} Nothing was changed. Use a new id.`, "id")

const list = {
  version: 1,
  prices: [
    { model: "gpt-5-mini", price_multiplier: null, prices: { input: "0.2", output: "1.6" } },
    { model: null, price_multiplier: "0.9", prices: null },
  ],
}
const changed = {
  version: 2,
  prices: [{ model: null, price_multiplier: "0.85", prices: null }],
}
const requested = [
  { model: "gpt-5-mini", prices: { input: "0.2", output: "1.6" } },
  { price_multiplier: "0.9" },
] as const

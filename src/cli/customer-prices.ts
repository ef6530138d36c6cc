import { CustomerPriceBody } from "../wire/customer-prices.ts"
import { ACCOUNT, accountId } from "./accounts.ts"
import { type AdminContext, adminCommand, listCommand } from "./admin-command.ts"
import type { Group } from "./command.ts"
import { moment } from "./moment.ts"
import { columnsOf } from "./screen.ts"
import { idOf, pairsIn, REASON, SPAN, timeAhead } from "./typed-words.ts"

/** `tollgate customer-price`: prices of one customer (D100). */

const EXAMPLE = "019f8b1c-7777-7000-9d4e-1a6b8c0f7e32"

const column = columnsOf(CustomerPriceBody)

export const customerPrice: Group = {
  summary: "Set, list and end prices of one customer",
  commands: {
    list: listCommand({
      summary: "List an account's prices, newest first",
      words: ACCOUNT,
      examples: { "tollgate customer-price list Acme": "with those that are over, and who set them" },
      entry: CustomerPriceBody,
      columns: [
        column("id"),
        column("model", { of: ({ model }) => model ?? "all models", least: 8 }),
        column("price_multiplier", { of: priceOf, least: 12 }),
        ...column.each("from", "until", "state"),
        column("price_list_id", { spare: 1 }),
        column("set_by", { spare: 2 }),
        column("reason", { spare: 3 }),
      ],
      empty:
        "This account has no prices of its own. Set one: tollgate customer-price set ACCOUNT --multiplier 0.9",
      path: async ({ account }, context) => [`/accounts/${await accountId(context, account)}/prices`],
    }),
    set: adminCommand({
      summary: "Set the price of an account for a model, or for all models",
      details: "It holds for calls from --from on, and in place of the account's price multiplier.",
      words: {
        ...ACCOUNT,
        "--model <NAME>": "the model (default: all models)",
        "--multiplier <FACTOR>": "the factor for the configured prices, such as 0.9",
        "--prices <KIND=PRICE,...>": "prices by kind, such as input=0.2,output=1.6, in place of a factor",
        ...SPAN,
        ...REASON,
      },
      examples: {
        "tollgate customer-price set Acme --multiplier 0.9": "on all models, from now on",
        "tollgate customer-price set Acme --model demo-small --prices input=0.2,output=1.6 --from 24h --until 72h --reason Contract":
          "prices of one model",
      },
      async run({ account, model, multiplier, prices, from, until, reason }, context) {
        const fields = {
          model,
          price_multiplier: multiplier,
          prices: prices && pricesIn(prices),
          from: timeAhead("--from", from),
          until: timeAhead("--until", until),
          reason,
        }
        const id = await accountId(context, account)
        show(context, await context.client.post(`/accounts/${id}/prices`, fields, CustomerPriceBody))
      },
    }),
    end: adminCommand({
      summary: "End a price of an account",
      words: {
        "<price>": 'the id of the price, as shown by "tollgate customer-price list"',
        "--at <TIME>": "when it ends (default: now)",
        ...REASON,
      },
      examples: { [`tollgate customer-price end ${EXAMPLE} --reason "Contract cancelled"`]: "from now on" },
      async run({ price, at, reason }, context) {
        const id = idOf(price, "a price", '"tollgate customer-price list ACCOUNT" lists the ids')
        const fields = { at: timeAhead("--at", at), reason }
        show(context, await context.client.post(`/prices/${id}/end`, fields, CustomerPriceBody))
      },
    }),
  },
}

function pricesIn(words: string): Record<string, unknown> {
  const prices: Record<string, string> = {}
  const tool_run: Record<string, string> = {}
  for (const [kind, price] of pairsIn("--prices", words, "KIND=PRICE,KIND=PRICE")) {
    if (kind.startsWith("tool_run.")) tool_run[kind.slice("tool_run.".length)] = price
    else prices[kind] = price
  }
  return Object.keys(tool_run).length === 0 ? prices : { ...prices, tool_run }
}

function show(context: AdminContext, price: CustomerPriceBody): void {
  const { model, until, ended } = price
  context.showCard(CustomerPriceBody, price, (line) => [
    line("id"),
    line("model", model ?? "all models"),
    line("price_multiplier", priceOf(price)),
    line("from"),
    line("until", until === null ? "until it is ended" : moment(until)),
    ...line.each("state", "set_by", "reason"),
    line(
      "ended",
      ended && `${moment(ended.at)} by ${ended.by}${ended.reason === null ? "" : `: ${ended.reason}`}`,
    ),
  ])
}

export function priceOf({
  price_multiplier,
  prices,
}: Pick<CustomerPriceBody, "price_multiplier" | "prices">): string {
  const { tool_run = {}, ...kinds } = prices ?? {}
  const runs = Object.entries(tool_run).map(([tool, price]) => [`tool_run.${tool}`, price])
  return price_multiplier === null
    ? [...Object.entries(kinds), ...runs].map(([kind, price]) => `${kind} ${price}`).join(", ")
    : `× ${price_multiplier}`
}

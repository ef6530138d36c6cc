import { readFileSync } from "node:fs"
import { nextId } from "../id.ts"
import { AssignedPriceList, AssignmentBody, PriceListBody } from "../wire/price-lists.ts"
import { parseJson } from "../wire/usage.ts"
import { accountId } from "./accounts.ts"
import { type AdminContext, adminCommand, listAll, listCommand } from "./admin-command.ts"
import { CliError, orFail, withRetryHint } from "./cli-error.ts"
import type { Given, Group } from "./command.ts"
import { priceOf } from "./customer-prices.ts"
import { moment } from "./moment.ts"
import { columnsOf, linesOf } from "./screen.ts"
import { idNamed, idOf, REASON, RETRY_ID, SPAN, timeAhead } from "./typed-words.ts"

/** `tollgate price-lists`: prices that accounts share (D110). */

const LIST = { "<list>": "the name of the price list, or its id" } as const
const PRICES = {
  "--multiplier <FACTOR>": "the factor for the configured prices of all models, such as 0.9",
  "--file <FILE>":
    'a JSON file with prices of models: [{"model": "NAME", "prices": {"input": "0.2"}}, {"model": "NAME", "price_multiplier": "0.8"}]',
  ...REASON,
  ...RETRY_ID,
} as const

const column = columnsOf(PriceListBody)
const assignmentColumn = columnsOf(AssignmentBody)

export const priceLists: Group = {
  summary: "Create, change and assign prices that accounts share",
  commands: {
    list: listCommand({
      summary: "List price lists, newest first",
      words: {},
      examples: { "tollgate price-lists": "their names, and who changed them last" },
      entry: PriceListBody,
      columns: [
        ...column.each("id", "name"),
        { title: "PRICES", of: ({ prices }) => prices.length, as: "count" },
        column("version", { spare: 1 }),
        column("changed_at"),
        column("set_by", { spare: 2 }),
        column("reason", { spare: 3 }),
      ],
      empty: "No price lists yet. Create one: tollgate price-lists create NAME --multiplier 0.9",
      path: async () => ["/price-lists"],
    }),
    show: adminCommand({
      summary: "Show a price list, and how many accounts have it",
      words: LIST,
      examples: { "tollgate price-lists show Partners": "its prices as they are now" },
      run: async ({ list: word }, context) =>
        showList(
          context,
          await context.client.get(`/price-lists/${await listId(context, word)}`, AssignedPriceList),
        ),
    }),
    create: adminCommand({
      summary: "Create a price list",
      words: { "<name>": "a name for the list", ...PRICES },
      examples: {
        "tollgate price-lists create Partners --multiplier 0.9":
          "10 % off the configured prices of all models",
        "tollgate price-lists create Resellers --file prices.json": "prices of some models",
      },
      async run({ name, reason, id = nextId(), ...given }, context) {
        const body = { id, name, reason, prices: pricesIn(given) }
        const made = await withRetryHint(id, () => context.client.post("/price-lists", body, PriceListBody))
        showList(context, made)
      },
    }),
    change: adminCommand({
      summary: "Replace the prices of a list, from now on, for all accounts that have it",
      words: { ...LIST, ...PRICES },
      examples: {
        "tollgate price-lists change Partners --multiplier 0.85": "calls in progress keep their price",
      },
      async run({ list: word, reason, id = nextId(), ...given }, context) {
        const path = `/price-lists/${await listId(context, word)}`
        const body = { id, reason, prices: pricesIn(given) }
        const ask = () => withRetryHint(id, () => context.client.patch(path, body, AssignedPriceList))
        let made = await ask()
        for (
          let before = Number.POSITIVE_INFINITY;
          made.pending > 0 && made.pending < before;
          made = await ask()
        )
          before = made.pending
        showList(context, made)
        if (made.pending > 0)
          throw new CliError(
            `${made.pending} accounts keep the former prices. Repeat the command with --id ${id}.`,
          )
      },
    }),
    assign: adminCommand({
      summary: "Give an account the prices of a list",
      words: {
        ...LIST,
        "<account>": "the account's id, or its name if no other account has it",
        ...SPAN,
        ...REASON,
        ...RETRY_ID,
      },
      examples: {
        "tollgate price-lists assign Partners Acme": "from now on",
        'tollgate price-lists assign Partners Acme --from 24h --until 72h --reason "Contract 118"':
          "for two days",
      },
      async run({ list: word, account, from, until, reason, id = nextId() }, context) {
        const path = `/price-lists/${await listId(context, word)}/assignments`
        const body = {
          id,
          account_id: await accountId(context, account),
          from: timeAhead("--from", from),
          until: timeAhead("--until", until),
          reason,
        }
        showAssignment(
          context,
          await withRetryHint(id, () => context.client.post(path, body, AssignmentBody)),
        )
      },
    }),
    accounts: listCommand({
      summary: "List the accounts to which a price list is assigned, newest first",
      words: LIST,
      examples: { "tollgate price-lists accounts Partners": "from when and until when" },
      entry: AssignmentBody,
      columns: [
        ...assignmentColumn.each("id", "account_id", "from", "until", "state"),
        assignmentColumn("set_by", { spare: 1 }),
        assignmentColumn("reason", { spare: 2 }),
      ],
      empty: "No account has this list. Assign it: tollgate price-lists assign LIST ACCOUNT",
      path: async ({ list: word }, context) => [`/price-lists/${await listId(context, word)}/assignments`],
    }),
    end: adminCommand({
      summary: "End an assignment of a price list",
      words: {
        "<assignment>": 'the id of the assignment, as shown by "tollgate price-lists accounts"',
        "--at <TIME>": "when it ends (default: now)",
        ...REASON,
      },
      examples: {
        'tollgate price-lists end 019f8b1c-9999-7000-9d4e-1a6b8c0f7e32 --reason "Contract cancelled"':
          "from now on",
      },
      async run({ assignment, at, reason }, context) {
        const id = idOf(assignment, "an assignment", '"tollgate price-lists accounts LIST" lists the ids')
        const fields = { at: timeAhead("--at", at), reason }
        showAssignment(context, await context.client.post(`/assignments/${id}/end`, fields, AssignmentBody))
      },
    }),
  },
  standard: "list",
}

function listId(context: AdminContext, word: string): Promise<string> {
  return idNamed(word, "price list", "price-lists", () => listAll(context, "/price-lists", {}, PriceListBody))
}

/** The gateway checks them. */
function pricesIn({ multiplier, file }: Pick<Given<typeof PRICES>, "multiplier" | "file">): unknown[] {
  const of_all = multiplier === undefined ? [] : [{ price_multiplier: multiplier }]
  if (file === undefined) return of_all
  const read = parseJson(orFail(() => readFileSync(file, "utf8"), `cannot read ${file}: `))
  if (!Array.isArray(read)) throw new CliError(`${file} is no JSON array of prices`)
  return [...read, ...of_all]
}

function showList(context: AdminContext, body: PriceListBody | AssignedPriceList): void {
  context.showCard(PriceListBody, body, (line) => [
    ...line.each("id", "name", "version"),
    ...body.prices.map((price) => [price.model ?? "all models", priceOf(price)] as const),
    ...line.each("set_by", "reason", "changed_at"),
    ...("assigned" in body ? [linesOf(AssignedPriceList, body)("assigned")] : []),
  ])
}

function showAssignment(context: AdminContext, body: AssignmentBody): void {
  context.showCard(AssignmentBody, body, (line) => [
    ...line.each("id", "account_id", "from"),
    line("until", body.until === null ? "until it is ended" : moment(body.until)),
    ...line.each("state", "set_by", "reason"),
  ])
}

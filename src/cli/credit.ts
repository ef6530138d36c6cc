import { nextId } from "../id.ts"
import { CreditedBody } from "../wire/admin.ts"
import { ACCOUNT, accountId } from "./accounts.ts"
import { adminCommand } from "./admin-command.ts"
import { withRetryHint } from "./cli-error.ts"
import { card, usd } from "./screen.ts"

/** `tollgate credit`: credits and corrections. */
export const credit = adminCommand({
  summary: "Credit an account, or correct its balance",
  args: {
    account: ACCOUNT,
    amount: {
      type: "positional",
      description: "USD with at most nine decimals; a negative amount is a correction",
    },
    reason: { type: "string", valueHint: "TEXT", description: "the reason, recorded in the journal" },
    id: {
      type: "string",
      valueHint: "UUID",
      description: "your own id for the credit: a repeat with the same id moves no money",
    },
  },
  examples: [
    ["tollgate credit Acme 25 --reason 'Invoice 118'", "adds 25 USD"],
    ["tollgate credit Acme -2.50 --reason 'Credited twice'", "a correction"],
  ],
  async run(given, context) {
    const account_id = await accountId(context, given.word("account"))
    const id = given.text("id") ?? nextId()
    const reason = given.text("reason")
    const body = { id, amount: given.word("amount"), ...(reason === null ? {} : { reason }) }
    const credited = await withRetryHint(id, () =>
      context.client.post(`/accounts/${account_id}/credits`, body, CreditedBody),
    )
    const { account } = credited
    context.show(credited, () =>
      card(
        [
          ["credit", credited.id],
          ["account", `${account.name} (${account.id})`],
          ["amount", `${usd(credited.amount)} USD`],
          ["balance", `${usd(account.balance)} USD`],
          ["available", `${usd(account.available)} USD`],
        ],
        context.screen.paint,
      ),
    )
  },
})

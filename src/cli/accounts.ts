import { nextId } from "../id.ts"
import { AccountBody, BalanceBody, CreditBody } from "../wire/admin.ts"
import { ACCOUNT, accountId } from "./account.ts"
import { usd } from "./amount.ts"
import { group } from "./command.ts"
import { UsageComplaint } from "./complaint.ts"
import { type Desk, deskLeaf } from "./desk.ts"
import { extentOf, LIST_ARGS, listAll, remarkMore } from "./list.ts"
import { briefMoment, moment, parseMoment } from "./moment.ts"
import { repeatable } from "./repeatable.ts"
import { card, table } from "./table.ts"

/** `tollgate accounts`: who pays. */

const NAME = { type: "positional", required: true, description: "what people call the account" } as const
const SELF = ["tollgate accounts show Acme", "its balance, what open calls hold, what is left"] as const

const list = deskLeaf({
  tells: "List accounts, newest first",
  args: LIST_ARGS,
  examples: [
    ["tollgate accounts", "the latest 20"],
    ["tollgate accounts list --all --json", "all of them, for a script"],
  ],
  async run(given, desk) {
    const accounts = await listAll(desk, "/accounts", {}, AccountBody, extentOf(given))
    desk.show(accounts, () => accountsTable(accounts.data, desk))
    remarkMore(desk, accounts)
  },
})

const show = deskLeaf({
  tells: "Show an account",
  args: { account: ACCOUNT },
  examples: [SELF],
  async run(given, desk) {
    const id = await accountId(desk, given.word("account"))
    showAccount(desk, await desk.office.get(`/accounts/${id}`, AccountBody))
  },
})

const balance = deskLeaf({
  tells: "Show what an account had at a moment",
  details: "It must be known of all calls since then: a moment long ago takes some seconds.",
  args: {
    account: ACCOUNT,
    at: {
      type: "string",
      valueHint: "TIME",
      description: "when: 2026-11-21, an RFC 3339 time, or 24h",
    },
  },
  examples: [["tollgate accounts balance Acme --at 2026-11-01", "with which balance a month began"]],
  async run(given, desk) {
    const text = given.text("at")
    if (text === null)
      throw new UsageComplaint("--at is missing; what an account has now, tollgate accounts show tells")
    const at = parseMoment(text, Date.now())
    if (at === null) throw new UsageComplaint("--at: expected 2026-11-21, an RFC 3339 time, or 24h")
    const id = await accountId(desk, given.word("account"))
    const found = await desk.office.get(`/accounts/${id}/balance?${new URLSearchParams({ at })}`, BalanceBody)
    desk.show(found, () => balanceCard(found, desk))
  },
})

const create = deskLeaf({
  tells: "Open an account, with a balance of 0",
  args: {
    name: NAME,
    id: {
      type: "string",
      valueHint: "UUID",
      description: "an id of your own: the same again opens no second account",
    },
  },
  examples: [["tollgate accounts create Acme", "opens it; then: tollgate credit Acme 25"]],
  async run(given, desk) {
    const id = given.text("id") ?? nextId()
    const body = { id, name: given.word("name") }
    showAccount(desk, await repeatable(id, () => desk.office.post("/accounts", body, AccountBody)))
  },
})

const credits = deskLeaf({
  tells: "List the credits and corrections of an account, newest first",
  args: { account: ACCOUNT, ...LIST_ARGS },
  examples: [["tollgate accounts credits Acme --all", "all that was put on it and taken off, and why"]],
  async run(given, desk) {
    const id = await accountId(desk, given.word("account"))
    const list = await listAll(desk, `/accounts/${id}/credits`, {}, CreditBody, extentOf(given))
    desk.show(list, () => creditsTable(list.data, desk, Date.now()))
    remarkMore(desk, list)
  },
})

const rename = deskLeaf({
  tells: "Give an account another name",
  args: { account: ACCOUNT, name: NAME },
  examples: [["tollgate accounts rename Acme 'Acme Ltd'", "keys and books stay as they are"]],
  async run(given, desk) {
    await change(desk, given.word("account"), { name: given.word("name") })
  },
})

const suspend = deskLeaf({
  tells: "Refuse the calls of an account from now on",
  args: { account: ACCOUNT },
  examples: [["tollgate accounts suspend Acme", "calls that run go on; new ones get 403"]],
  run: (given, desk) => change(desk, given.word("account"), { suspended: true }),
})

const resume = deskLeaf({
  tells: "Take the calls of a suspended account again",
  args: { account: ACCOUNT },
  examples: [["tollgate accounts resume Acme", "its keys work as before"]],
  run: (given, desk) => change(desk, given.word("account"), { suspended: false }),
})

export const accounts = group(
  "List, open, rename and suspend accounts",
  { list, show, balance, create, credits, rename, suspend, resume },
  "list",
)

async function change(desk: Desk, word: string, body: object): Promise<void> {
  const id = await accountId(desk, word)
  showAccount(desk, await desk.office.patch(`/accounts/${id}`, body, AccountBody))
}

function showAccount(desk: Desk, account: AccountBody): void {
  desk.show(account, () => accountCard(account, desk))
}

export function accountCard(account: AccountBody, { screen }: Desk): string {
  const { id, name, balance, held, available, suspended, created_at } = account
  return card(
    [
      ["account", id],
      ["name", name],
      ["state", stateOf(suspended)],
      ["balance", `${usd(balance)} USD`],
      ["held", `${usd(held)} USD`],
      ["available", `${usd(available)} USD`],
      ["opened", moment(created_at)],
    ],
    screen.paint,
  )
}

function balanceCard({ account_id, at, balance, held, available }: BalanceBody, { screen }: Desk): string {
  return card(
    [
      ["account", account_id],
      ["at", moment(at)],
      ["balance", `${usd(balance)} USD`],
      ["held", `${usd(held)} USD`],
      ["available", `${usd(available)} USD`],
    ],
    screen.paint,
  )
}

function accountsTable(data: readonly AccountBody[], { screen }: Desk): string {
  if (data.length === 0) return "There is no account yet: tollgate accounts create NAME"
  return table(
    [
      { title: "ID" },
      { title: "NAME", least: 12 },
      { title: "STATE", spare: 2 },
      { title: "BALANCE", align: "point" },
      { title: "HELD", align: "point", spare: 1 },
      { title: "AVAILABLE", align: "point" },
      { title: "OPENED", spare: 3 },
    ],
    data.map(({ id, name, suspended, balance, held, available, created_at }) => [
      id,
      name,
      stateOf(suspended),
      usd(balance),
      usd(held),
      usd(available),
      moment(created_at),
    ]),
    screen.width,
    screen.paint,
  )
}

function creditsTable(data: readonly CreditBody[], { screen }: Desk, now_ms: number): string {
  if (data.length === 0) return "There is no credit yet: tollgate credit ACCOUNT AMOUNT"
  return table(
    [
      { title: "ID", spare: 1 },
      { title: "MADE" },
      { title: "AMOUNT", align: "point" },
      { title: "REASON", least: 20 },
    ],
    data.map(({ id, created_at, amount, reason }) => [
      id,
      briefMoment(created_at, now_ms),
      usd(amount),
      reason ?? "-",
    ]),
    screen.width,
    screen.paint,
  )
}

function stateOf(suspended: boolean): string {
  return suspended ? "suspended" : "active"
}

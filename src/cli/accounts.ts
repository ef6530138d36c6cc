import { nextId, parseId } from "../id.ts"
import { AccountBody, BalanceBody, CreditBody } from "../wire/admin.ts"
import { MAX_PAGE } from "../wire/admin-query.ts"
import { MoveBody } from "../wire/moves.ts"
import { type AdminContext, adminCommand, extentOf, LIST_ARGS, listAll, remarkNext } from "./admin-command.ts"
import { CliError, UsageError, withRetryHint } from "./cli-error.ts"
import { group } from "./command.ts"
import { briefMoment, moment, parseMoment } from "./moment.ts"
import { card, table, usd } from "./screen.ts"

/** `tollgate accounts`: the accounts that pay for calls. */

/** The argument that names an account. */
export const ACCOUNT = {
  type: "positional",
  description: "the id of the account, or its name if the name is unique",
} as const

const NAME = { type: "positional", description: "the name of the account" } as const
const SELF = [
  "tollgate accounts show Acme",
  "its balance, what open calls hold, and what is available",
] as const

const list = adminCommand({
  summary: "List accounts, newest first",
  args: LIST_ARGS,
  examples: [
    ["tollgate accounts", "the latest 20"],
    ["tollgate accounts list --all --json", "all accounts, as JSON"],
  ],
  async run(given, context) {
    const accounts = await listAll(context, "/accounts", {}, AccountBody, extentOf(given))
    context.show(accounts, () => accountsTable(accounts.data, context))
    remarkNext(context, accounts)
  },
})

const show = adminCommand({
  summary: "Show an account",
  args: { account: ACCOUNT },
  examples: [SELF],
  async run(given, context) {
    const id = await accountId(context, given.word("account"))
    showAccount(context, await context.client.get(`/accounts/${id}`, AccountBody))
  },
})

const balance = adminCommand({
  summary: "Show the balance of an account at a time in the past",
  details: "Takes the current balance and subtracts the entries since that time.",
  args: {
    account: ACCOUNT,
    at: {
      type: "string",
      valueHint: "TIME",
      description: "the time: 2026-11-21, an RFC 3339 time, or 24h (ago)",
    },
  },
  examples: [["tollgate accounts balance Acme --at 2026-11-01", "the balance at the start of a month"]],
  async run(given, context) {
    const text = given.text("at")
    if (text === null)
      throw new UsageError('--at is required; "tollgate accounts show" shows the current balance')
    const at = parseMoment(text, Date.now())
    if (at === null) throw new UsageError("--at: expected 2026-11-21, an RFC 3339 time, or 24h")
    const id = await accountId(context, given.word("account"))
    const found = await context.client.get(
      `/accounts/${id}/balance?${new URLSearchParams({ at })}`,
      BalanceBody,
    )
    context.show(found, () => balanceCard(found, context))
  },
})

const create = adminCommand({
  summary: "Create an account with a balance of 0",
  args: {
    name: NAME,
    id: {
      type: "string",
      valueHint: "UUID",
      description: "your own id for the account: a repeat with the same id creates nothing",
    },
    margin: {
      type: "string",
      valueHint: "NUMBER",
      description: "factor for the prices (default: 1)",
    },
  },
  examples: [
    ["tollgate accounts create Acme", "then add money: tollgate credit Acme 25"],
    ["tollgate accounts create Acme --margin 1.25", "its calls are charged 25 % more than they cost"],
  ],
  async run(given, context) {
    const id = given.text("id") ?? nextId()
    const margin = given.text("margin")
    const body = { id, name: given.word("name"), ...(margin !== null && { margin }) }
    const made = await withRetryHint(id, () => context.client.post("/accounts", body, AccountBody))
    showAccount(context, made)
    const latest = await listAll(context, "/accounts", {}, AccountBody, { limit: MAX_PAGE, after: null })
    if (latest.data.some((other) => other.name === made.name && other.id !== made.id))
      context.remark("Another account has the same name, so commands accept only the ids of these accounts.")
  },
})

const credits = adminCommand({
  summary: "List the credits and corrections of an account, newest first",
  args: { account: ACCOUNT, ...LIST_ARGS },
  examples: [["tollgate accounts credits Acme --all", "all credits and corrections, with their reasons"]],
  async run(given, context) {
    const id = await accountId(context, given.word("account"))
    const list = await listAll(context, `/accounts/${id}/credits`, {}, CreditBody, extentOf(given))
    context.show(list, () => creditsTable(list.data, context, Date.now()))
    remarkNext(context, list)
  },
})

const rename = adminCommand({
  summary: "Rename an account",
  args: { account: ACCOUNT, name: NAME },
  examples: [["tollgate accounts rename Acme 'Acme Ltd'", "its keys and its history stay the same"]],
  async run(given, context) {
    await change(context, given.word("account"), { name: given.word("name") })
  },
})

const suspend = adminCommand({
  summary: "Suspend an account: refuse its new calls",
  args: { account: ACCOUNT },
  examples: [["tollgate accounts suspend Acme", "calls in progress continue, new ones get 403"]],
  run: (given, context) => change(context, given.word("account"), { suspended: true }),
})

const resume = adminCommand({
  summary: "Resume a suspended account",
  args: { account: ACCOUNT },
  examples: [["tollgate accounts resume Acme", "its keys work again"]],
  run: (given, context) => change(context, given.word("account"), { suspended: false }),
})

const margin = adminCommand({
  summary: "Set the margin of an account: the factor by which its prices are multiplied",
  details: "Applies to calls that start after the change.",
  args: {
    account: ACCOUNT,
    margin: { type: "positional", required: true, description: "a number such as 1.25; 1 for no margin" },
  },
  examples: [["tollgate accounts margin Acme 1.25", "its calls are charged 25 % more than they cost"]],
  run: (given, context) => change(context, given.word("account"), { margin: given.word("margin") }),
})

/** How often the progress of a move is shown. */
const REMARK_MS = 5_000

const move = adminCommand({
  summary: "Move an account to another shard",
  details:
    "Waits for the open calls of the account; until the end its new calls get a 503 and are to be repeated. The same command continues a move that was interrupted. The present shard as --to cancels a move. The exit code is 1 if the account does not match its journal afterwards.",
  args: {
    account: ACCOUNT,
    to: { type: "string", valueHint: "SHARD", description: "the name of the shard" },
  },
  examples: [["tollgate accounts move Acme --to b", "its keys, balance and limits go to shard b"]],
  async run(given, context) {
    const to = given.text("to")
    if (to === null) throw new UsageError("--to is required: the name of the shard")
    const id = await accountId(context, given.word("account"))
    const moved = await followed(context, id, to)
    context.show(moved, () =>
      moved.step === "cancelled"
        ? `The move was cancelled: the account is live in shard ${to}.`
        : `${context.screen.paint("green", "✓")} The account is in shard ${to}.`,
    )
    if (moved.violations.length > 0)
      throw new CliError('the account does not match its journal: "tollgate audit" lists what differs')
  },
})

export const accounts = group(
  "List, create, rename, suspend, resume and move accounts, and set margins",
  { list, show, balance, create, credits, rename, margin, suspend, resume, move },
  "list",
)

/** Repeats the request until the move has ended, and says every few seconds how far it is. */
async function followed({ client, remark }: AdminContext, id: string, to: string): Promise<MoveBody> {
  for (let said_ms = Number.NEGATIVE_INFINITY; ; ) {
    const move = await client.post(`/accounts/${id}/move`, { to }, MoveBody)
    if (move.step === "done" || move.step === "cancelled") return move
    if (performance.now() - said_ms < REMARK_MS) continue
    said_ms = performance.now()
    remark(
      move.step === "draining"
        ? `Waiting for open calls of the account, which hold ${usd(move.held)} USD.`
        : `The move is ${move.step}.`,
    )
  }
}

async function change(context: AdminContext, word: string, body: object): Promise<void> {
  const id = await accountId(context, word)
  showAccount(context, await context.client.patch(`/accounts/${id}`, body, AccountBody))
}

function showAccount(context: AdminContext, account: AccountBody): void {
  context.show(account, () => accountCard(account, context))
}

function accountCard(account: AccountBody, { screen }: AdminContext): string {
  const { id, name, balance, held, available, margin, suspended, created_at, shard } = account
  return card(
    [
      ["account", id],
      ["name", name],
      ["state", stateOf(suspended)],
      ["balance", `${usd(balance)} USD`],
      ["held", `${usd(held)} USD`],
      ["available", `${usd(available)} USD`],
      ["margin", margin],
      ["created", moment(created_at)],
      ...(shard === undefined ? [] : [["shard", shard] as const]),
    ],
    screen.paint,
  )
}

function balanceCard(
  { account_id, at, balance, held, available }: BalanceBody,
  { screen }: AdminContext,
): string {
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

function accountsTable(data: readonly AccountBody[], { screen }: AdminContext): string {
  if (data.length === 0) return "No accounts yet. Create one: tollgate accounts create NAME"
  return table(
    [
      { title: "ID" },
      { title: "NAME", least: 12 },
      { title: "STATE", spare: 2 },
      { title: "BALANCE", align: "point" },
      { title: "HELD", align: "point", spare: 1 },
      { title: "AVAILABLE", align: "point" },
      { title: "CREATED", spare: 3 },
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

function creditsTable(data: readonly CreditBody[], { screen }: AdminContext, now_ms: number): string {
  if (data.length === 0) return "No credits yet. Add one: tollgate credit ACCOUNT AMOUNT"
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

/** The id of the account that `word` names. Names need not be unique, so an ambiguous name is an error: a guess could credit the wrong account. */
export async function accountId(context: AdminContext, word: string): Promise<string> {
  const id = parseId(word)
  if (id !== null) return id
  const { data } = await listAll(context, "/accounts", {}, AccountBody, {
    limit: Number.POSITIVE_INFINITY,
    after: null,
  })
  const [found, ...others] = data.filter(({ name }) => name === word)
  if (found === undefined)
    throw new CliError(`no account is named "${word}": "tollgate accounts" lists all accounts`)
  if (others.length === 0) return found.id
  const ids = [found, ...others].map((account) => account.id).join(", ")
  throw new CliError(`${others.length + 1} accounts are named "${word}": use the id of one of them: ${ids}`)
}

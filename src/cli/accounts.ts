import { nextId } from "../id.ts"
import { AccountBody, BalanceBody } from "../wire/admin.ts"
import { accountSorts } from "../wire/admin-query.ts"
import { CreditedBody, GrantBody } from "../wire/credit-bodies.ts"
import { creditKinds } from "../wire/credits.ts"
import { ForgottenEndUser } from "../wire/labels.ts"
import { MoveBody } from "../wire/moves.ts"
import { type AdminContext, adminCommand, listAll, listCommand } from "./admin-command.ts"
import { CliError, UsageError, withRetryHint } from "./cli-error.ts"
import type { Group } from "./command.ts"
import { columnsOf, linesOf, usd } from "./screen.ts"
import { idNamed, REASON, timeAhead, timeOf } from "./typed-words.ts"

export const ACCOUNT = {
  "<account>": "the id of the account, its external id, or its name if the name is unique",
} as const
const NAME = { "<name>": "the name of the account" } as const

const accountColumn = columnsOf(AccountBody)
const creditColumn = columnsOf(GrantBody)

const priceMultiplier = adminCommand({
  summary: "Set the price multiplier of an account: the factor for the prices of its calls",
  details: "Applies to calls that start after the change.",
  words: { ...ACCOUNT, "<multiplier>": "a number such as 1.25; 1 charges the prices as they are" },
  examples: {
    "tollgate accounts price-multiplier Acme 1.25": "its calls are charged 25 % more than they cost",
  },
  run: ({ account, multiplier }, context) => change(context, account, { price_multiplier: multiplier }),
})

const REMARK_MS = 5_000

/** Repeats the request until the move has ended, and says every few seconds how far it is. */
async function followed({ client, remark }: AdminContext, id: string, to: string): Promise<MoveBody> {
  for (let printed_ms = Number.NEGATIVE_INFINITY; ; ) {
    const move = await client.post(`/accounts/${id}/move`, { to }, MoveBody)
    if (move.step === "done" || move.step === "cancelled") return move
    if (performance.now() - printed_ms < REMARK_MS) continue
    printed_ms = performance.now()
    remark(
      move.step === "draining"
        ? `Waiting for open calls of the account, which hold ${usd(move.held)} USD.`
        : `The move is ${move.step}.`,
    )
  }
}

export const credit = adminCommand({
  summary: "Credit an account, or correct its balance",
  words: {
    ...ACCOUNT,
    "<amount>": "USD with at most nine decimals; a negative amount is a correction",
    ...REASON,
    "--id <UUID>": "your own id for the credit: a repeat with the same id moves no money",
    "--kind <KIND>": `the kind: ${creditKinds.join(", ")}`,
    "--priority <NUMBER>": "0 to 100: calls spend the smallest first (default: 50)",
    "--effective <TIME>": "when it comes to the balance: 2027-01-31, an RFC 3339 time, or 30d (from now)",
    "--expires <TIME>": "when what is left expires: 2027-12-31, an RFC 3339 time, or 30d (from now)",
    "--call <ID>": "the call that is refunded: at most its charge in all refunds",
    "--ref <TEXT>": "your reference of a payment: a second credit with it is not made",
  },
  examples: {
    "tollgate credit Acme 25 --reason 'Invoice 118'": "adds 25 USD",
    "tollgate credit Acme 5 --kind promotion --priority 10 --expires 30d": "spent first, for 30 days",
    "tollgate credit Acme 0.00001 --call 019f8b1c-3333-7000-8b7a-5d1f3c9e2a40":
      "refunds a call; its receipt shows it",
    "tollgate credit Acme -2.50 --reason 'Credited twice'": "a correction",
  },
  async run({ account: word, id = nextId(), ref, call, priority, effective, expires, ...given }, context) {
    const { amount, reason, kind } = given
    const account_id = await accountId(context, word)
    const body = {
      id,
      amount,
      reason,
      kind,
      priority: priority === undefined ? undefined : Number(priority),
      effective_at: timeAhead("--effective", effective),
      expires_at: timeAhead("--expires", expires),
      source_ref: ref,
      call_id: call,
    }
    const { answer, is_new } = await withRetryHint(id, () =>
      context.client.make(`/accounts/${account_id}/credits`, body, CreditedBody),
    )
    showCredit(context, answer)
    if (!is_new) context.remark("Already credited: nothing was moved.")
  },
})

function showCredit(context: AdminContext, credited: CreditedBody): void {
  const { account } = credited
  context.showCard(CreditedBody, credited, (line) => [
    ["credit", credited.id],
    ["account", `${account.name} (${account.id})`],
    ...line.each("amount", "left"),
    line("expires_at", ...(credited.expires_at === null ? ["never"] : [])),
    ...linesOf(AccountBody, account).each("balance", "available"),
  ])
}

export const accounts: Group = {
  summary: "List, create, rename, suspend, resume and move accounts, and set price multipliers",
  commands: {
    list: listCommand({
      summary: "List accounts, newest first",
      words: {
        "--search <TEXT>": "only accounts with this text in their name or external id, or with this id",
        "--sort <ORDER>": ["the order, such as -balance: by a field, with a minus descending", accountSorts],
      },
      examples: {
        "tollgate accounts": "the latest 20",
        "tollgate accounts list --sort available": "those that can spend least",
        "tollgate accounts list --search acme": "those with this text in their name",
        "tollgate accounts list --all --json": "all accounts, as JSON",
      },
      entry: AccountBody,
      columns: [
        accountColumn("id"),
        accountColumn("name", { least: 12 }),
        accountColumn("suspended", { of: stateOf, spare: 2 }),
        accountColumn("balance"),
        accountColumn("held", { spare: 1 }),
        accountColumn("available"),
        accountColumn("created_at", { spare: 3 }),
      ],
      empty: "No accounts yet. Create one: tollgate accounts create NAME",
      path: async (query) => ["/accounts", query],
    }),
    show: adminCommand({
      summary: "Show an account",
      words: ACCOUNT,
      examples: { "tollgate accounts show Acme": "its balance, what open calls hold, and what is available" },
      async run({ account }, context) {
        const id = await accountId(context, account)
        showAccount(context, await context.client.get(`/accounts/${id}`, AccountBody))
      },
    }),
    balance: adminCommand({
      summary: "Show the balance of an account at a time in the past",
      details: "Takes the current balance and subtracts the entries since that time.",
      words: { ...ACCOUNT, "--at <TIME>": "the time: 2026-11-21, an RFC 3339 time, or 24h (ago)" },
      examples: { "tollgate accounts balance Acme --at 2026-11-01": "the balance at the start of a month" },
      async run({ account, at }, context) {
        if (at === undefined)
          throw new UsageError('--at is required; "tollgate accounts show" shows the current balance')
        const time = timeOf("--at", at)
        const id = await accountId(context, account)
        const found = await context.client.get(`/accounts/${id}/balance`, BalanceBody, { at: time })
        const fields = ["account_id", "at", "balance", "held", "available"] as const
        context.showCard(BalanceBody, found, (line) => line.each(...fields))
      },
    }),
    create: adminCommand({
      summary: "Create an account with a balance of 0",
      words: {
        ...NAME,
        "--id <UUID>": "your own id for the account: a repeat with the same id creates nothing",
        "--external-id <ID>": "your own id of the account, which no other one has",
        "--price-multiplier <NUMBER>": "factor for the prices (default: 1)",
        "--margin <NUMBER>": "old name of --price-multiplier",
      },
      examples: {
        "tollgate accounts create Acme": "then add money: tollgate credit Acme 25",
        "tollgate accounts create Acme --price-multiplier 1.25":
          "its calls are charged 25 % more than they cost",
      },
      async run(
        { name, id = nextId(), margin, "price-multiplier": given, "external-id": external_id },
        context,
      ) {
        if (margin !== undefined && given !== undefined)
          throw new UsageError("--margin and --price-multiplier cannot be combined")
        const price_multiplier = given ?? margin
        const made = await withRetryHint(id, () =>
          context.client.post("/accounts", { id, name, external_id, price_multiplier }, AccountBody),
        )
        showAccount(context, made)
        const alike = await listAll(context, "/accounts", { search: made.name }, AccountBody)
        if (alike.data.some((other) => other.name === made.name && other.id !== made.id))
          context.remark(
            "Another account has the same name, so commands accept only the ids of these accounts.",
          )
      },
    }),
    credits: listCommand({
      summary: "List the credits and corrections of an account, newest first",
      words: ACCOUNT,
      examples: { "tollgate accounts credits Acme --all": "all credits and corrections, with their reasons" },
      entry: GrantBody,
      columns: [
        creditColumn("id", { spare: 1 }),
        creditColumn("created_at", { as: "brief" }),
        ...creditColumn.each("amount", "left"),
        creditColumn("kind", { spare: 3 }),
        creditColumn("priority", { spare: 4 }),
        creditColumn("expires_at", { spare: 2 }),
        creditColumn("reason", { least: 20 }),
      ],
      empty: "No credits yet. Add one: tollgate credit ACCOUNT AMOUNT",
      path: async ({ account }, context) => [`/accounts/${await accountId(context, account)}/credits`],
    }),
    "void-credit": adminCommand({
      summary: "Take back what is left of a credit",
      details:
        "Open calls can still spend what they hold of it; the rest of that is taken back when they end.",
      words: { "<credit>": 'the id of the credit, as shown by "tollgate accounts credits"', ...REASON },
      examples: {
        "tollgate accounts void-credit 019f8b1c-1111-7000-a3f0-7c2b9d8e6f51":
          "what was spent of it stays spent",
      },
      async run({ credit: id, reason }, context) {
        showCredit(context, await context.client.post(`/credits/${id}/void`, { reason }, CreditedBody))
      },
    }),
    "credit-limit": adminCommand({
      summary: "Set the credit limit of an account: how far its calls can take the balance below 0",
      words: { ...ACCOUNT, "<amount>": "USD with at most nine decimals; 0 for none" },
      examples: { "tollgate accounts credit-limit Acme 100": "its calls can use 100 USD more than it has" },
      run: ({ account, amount }, context) => change(context, account, { credit_limit: amount }),
    }),
    "low-balance": adminCommand({
      summary: "Set the balance below which there is an event",
      words: { ...ACCOUNT, "<amount>": "USD with at most nine decimals; none for no event" },
      examples: {
        "tollgate accounts low-balance Acme 5":
          "sends tollgate.balance.low once, until the balance is 5 USD again",
      },
      run: ({ account, amount }, context) =>
        change(context, account, { low_balance: amount === "none" ? null : amount }),
    }),
    rename: adminCommand({
      summary: "Rename an account",
      words: { ...ACCOUNT, ...NAME },
      examples: { "tollgate accounts rename Acme 'Acme Ltd'": "its keys and its history stay the same" },
      run: ({ account, name }, context) => change(context, account, { name }),
    }),
    "price-multiplier": priceMultiplier,
    margin: {
      ...priceMultiplier,
      summary: "The old name of price-multiplier",
      examples: {
        "tollgate accounts margin Acme 1.25": "use price-multiplier: version 2 has no margin",
      },
    },
    "external-id": adminCommand({
      summary: "Set your own id of an account",
      words: { ...ACCOUNT, "<external-id>": "an id that no other account has; none removes it" },
      examples: { "tollgate accounts external-id Acme customer-118": "commands accept it as the account" },
      run: ({ account, "external-id": id }, context) =>
        change(context, account, { external_id: id === "none" ? null : id }),
    }),
    "forget-end-user": adminCommand({
      summary: "Forget an end user: remove its name from the ledger",
      details: "Calls keep the id of the end user, so sums and entries do not change.",
      words: { ...ACCOUNT, "<end-user>": "its name, or its id" },
      examples: { "tollgate accounts forget-end-user Acme ann@example.com": "prints the id, which stays" },
      async run({ account, "end-user": end_user }, context) {
        const path = `/accounts/${await accountId(context, account)}/forget-end-user`
        const user = await context.client.post(path, { end_user }, ForgottenEndUser)
        context.show(user, () => `Forgot the end user ${user.id}.`)
      },
    }),
    suspend: adminCommand({
      summary: "Suspend an account: refuse its new calls",
      words: ACCOUNT,
      examples: { "tollgate accounts suspend Acme": "calls in progress continue, new ones get 403" },
      run: ({ account }, context) => change(context, account, { suspended: true }),
    }),
    resume: adminCommand({
      summary: "Resume a suspended account",
      words: ACCOUNT,
      examples: { "tollgate accounts resume Acme": "its keys work again" },
      run: ({ account }, context) => change(context, account, { suspended: false }),
    }),
    "manage-keys": adminCommand({
      summary: "Let the holders of an account's keys make, rotate and revoke keys, or not",
      details: "A key that a holder makes has no more rights than the one that makes it.",
      words: { ...ACCOUNT, "<answer>": "yes or no" },
      examples: {
        "tollgate accounts manage-keys Acme yes": "its customers use the page /account, or /v1/keys",
      },
      run({ account, answer }, context) {
        if (answer !== "yes" && answer !== "no") throw new UsageError("<answer> is yes or no")
        return change(context, account, { may_manage_keys: answer === "yes" })
      },
    }),
    move: adminCommand({
      summary: "Move an account to another shard",
      details:
        "Waits for the account's open calls. Until the move ends, new calls get a 503 and should be retried. The same command resumes an interrupted move. To cancel a move, pass the current shard as --to. The exit code is 1 if the account does not match its journal afterwards.",
      words: { ...ACCOUNT, "--to <SHARD>": "the name of the shard" },
      examples: { "tollgate accounts move Acme --to b": "its keys, balance and limits go to shard b" },
      async run({ account, to }, context) {
        if (to === undefined) throw new UsageError("--to is required: the name of the shard")
        const moved = await followed(context, await accountId(context, account), to)
        context.show(moved, () =>
          moved.step === "cancelled"
            ? `The move was cancelled: the account is live in shard ${to}.`
            : `${context.screen.paint("green", "✓")} The account is in shard ${to}.`,
        )
        if (moved.violations.length > 0)
          throw new CliError('the account does not match its journal: "tollgate audit" lists what differs')
      },
    }),
  },
  standard: "list",
}

async function change(context: AdminContext, word: string, fields: object): Promise<void> {
  const id = await accountId(context, word)
  showAccount(context, await context.client.patch(`/accounts/${id}`, fields, AccountBody))
}

function showAccount(context: AdminContext, account: AccountBody): void {
  context.showCard(AccountBody, account, (line) => [
    ...line.each("id", "name"),
    line("external_id", account.external_id ?? undefined),
    line("suspended", stateOf(account)),
    ...line.each("balance", "held", "available", "credit_limit"),
    line("low_balance", account.low_balance ?? undefined),
    line("price_multiplier"),
    line("may_manage_keys", account.may_manage_keys ? "yes" : "no"),
    line("created_at"),
    line("shard", account.shard),
  ])
}

function stateOf({ suspended }: AccountBody): string {
  return suspended ? "suspended" : "active"
}

/** The id of the account with this id, external id or name. */
export function accountId(context: AdminContext, word: string): Promise<string> {
  return idNamed(word, "account", "accounts", () =>
    listAll(context, "/accounts", { search: word }, AccountBody),
  )
}

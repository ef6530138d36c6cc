import { parseId } from "../id.ts"
import { CreatedKeyBody, KeyBody } from "../wire/admin.ts"
import { ACCOUNT, accountId } from "./accounts.ts"
import { type AdminContext, adminCommand, extentOf, LIST_ARGS, listAll, remarkNext } from "./admin-command.ts"
import { UsageError } from "./cli-error.ts"
import { type Given, group } from "./command.ts"
import { briefMoment, moment, parseMoment } from "./moment.ts"
import { card, table, usd } from "./screen.ts"

/** `tollgate keys`: the API keys of an account (D26, D42). */

const KEY = {
  type: "positional",
  description: 'the id of the key, as shown by "tollgate keys list"',
} as const
const EXAMPLE_KEY = "019f8b1c-2222-7000-9d4e-1a6b8c0f7e32"

const list = adminCommand({
  summary: "List an account's keys, newest first",
  args: { account: ACCOUNT, ...LIST_ARGS },
  examples: [["tollgate keys list Acme", "includes revoked and expired keys"]],
  async run(given, context) {
    const id = await accountId(context, given.word("account"))
    const keys = await listAll(context, `/accounts/${id}/keys`, {}, KeyBody, extentOf(given))
    context.show(keys, () => keysTable(keys.data, context, Date.now()))
    remarkNext(context, keys)
  },
})

const LIMIT_FORM = "AMOUNT/day, AMOUNT/month or none"

const LIMITS = {
  name: { type: "string", valueHint: "NAME", description: "the name of the key" },
  models: { type: "string", valueHint: "A,B", description: "the models that it can use" },
  expires: {
    type: "string",
    valueHint: "TIME",
    description: "when it expires: 2027-12-31, an RFC 3339 time, or 30d (from now)",
  },
  limit: { type: "string", valueHint: "25/month", description: `its spending limit: ${LIMIT_FORM}` },
} as const

const create = adminCommand({
  summary: "Create a key and show it once",
  args: { account: ACCOUNT, ...LIMITS },
  examples: [
    ["tollgate keys create Acme", "for all models, until it is revoked"],
    [
      "tollgate keys create Acme --name ci --models demo-small --expires 30d --limit 5/day",
      "with restrictions",
    ],
  ],
  async run(given, context) {
    const id = await accountId(context, given.word("account"))
    const key = await context.client.post(`/accounts/${id}/keys`, wantedOf(given), CreatedKeyBody)
    context.show(key, () => card([["key", key.key], ...keyLines(key)], context.screen.paint))
    context.remark("Store the key now: it is not shown again.")
  },
})

const change = adminCommand({
  summary: "Change a key's name, models, expiry or limit",
  details: "Flags that are not given change nothing. The value none removes a setting.",
  args: { key: KEY, ...LIMITS },
  examples: [
    [`tollgate keys change ${EXAMPLE_KEY} --name production`, "another name"],
    [
      `tollgate keys change ${EXAMPLE_KEY} --models none --expires none`,
      "allow all models, and remove the expiry",
    ],
  ],
  async run(given, context) {
    const change = wantedOf(given)
    if (Object.keys(change).length === 0) {
      throw new UsageError("nothing to change: use --name, --models, --expires or --limit")
    }
    await changeKey(context, given.word("key"), change)
  },
})

const limit = adminCommand({
  summary: "Set the spending limit of a key per day or month",
  args: {
    key: KEY,
    limit: { type: "positional", description: LIMIT_FORM },
  },
  examples: [
    [
      `tollgate keys limit ${EXAMPLE_KEY} 25/month`,
      "calls above the limit get 402; days and months are in UTC",
    ],
    [`tollgate keys limit ${EXAMPLE_KEY} none`, "remove the limit"],
  ],
  run: (given, context) =>
    changeKey(context, given.word("key"), { spending_limit: parseSpendingLimit(given.word("limit")) }),
})

const suspend = adminCommand({
  summary: "Suspend a key: refuse its new calls",
  args: { key: KEY },
  examples: [[`tollgate keys suspend ${EXAMPLE_KEY}`, "calls in progress continue, new ones get 403"]],
  run: (given, context) => changeKey(context, given.word("key"), { suspended: true }),
})

const resume = adminCommand({
  summary: "Resume a suspended key",
  args: { key: KEY },
  examples: [[`tollgate keys resume ${EXAMPLE_KEY}`, "it works again"]],
  run: (given, context) => changeKey(context, given.word("key"), { suspended: false }),
})

const revoke = adminCommand({
  summary: "Revoke a key permanently",
  args: { key: KEY },
  examples: [[`tollgate keys revoke ${EXAMPLE_KEY}`, "every new request with it gets 401"]],
  async run(given, context) {
    const id = keyId(given.word("key"))
    await context.client.delete(`/keys/${id}`)
    context.show(null, () => `Revoked the key ${id}.`)
  },
})

export const keys = group("Create, list, change, limit, suspend, resume and revoke keys", {
  list,
  create,
  change,
  limit,
  suspend,
  resume,
  revoke,
})

/** Parses a key id; throws a `UsageError` that quotes an invalid one. */
function keyId(word: string): string {
  const id = parseId(word)
  if (id !== null) return id
  throw new UsageError(`"${word}" is not a key id: "tollgate keys list ACCOUNT" lists the ids`)
}

async function changeKey(context: AdminContext, word: string, body: object): Promise<void> {
  const key = await context.client.patch(`/keys/${keyId(word)}`, body, KeyBody)
  context.show(key, () => card(keyLines(key), context.screen.paint))
}

/** The fields of a key from the flags, in the form of the API. */
function wantedOf(given: Given<keyof typeof LIMITS>): object {
  const fields: Record<string, unknown> = {}
  const put = (flag: keyof typeof LIMITS, field: string, read: (text: string) => unknown) => {
    const text = given.text(flag)
    if (text !== null) fields[field] = text === "none" ? null : read(text)
  }
  put("name", "name", (text) => text)
  put("models", "models", (text) => text.split(",").map((model) => model.trim()))
  put("expires", "expires_at", expiryOf)
  put("limit", "spending_limit", parseSpendingLimit)
  return fields
}

function expiryOf(text: string): string {
  const time = parseMoment(text, Date.now(), "ahead")
  if (time === null) throw new UsageError("--expires: expected 2027-12-31, an RFC 3339 time, or 30d")
  return time
}

type Shown = Pick<
  KeyBody,
  "id" | "name" | "prefix" | "models" | "suspended" | "expires_at" | "spending_limit"
> &
  Partial<Pick<KeyBody, "spent" | "revoked_at">>

function keyLines(key: Shown): [string, string][] {
  const { id, name, prefix, models, expires_at } = key
  return [
    ["id", id],
    ["name", name ?? "-"],
    ["begins with", prefix],
    ["state", stateOf(key, Date.now())],
    ["models", models?.join(", ") ?? "all"],
    ["expires", expires_at === null ? "never" : moment(expires_at)],
    ["limit", limitOf(key)],
  ]
}

function limitOf({ spending_limit, spent }: Shown): string {
  if (spending_limit === null) return "none"
  const limit = `${usd(spending_limit.amount)} USD per ${spending_limit.per}`
  return spent === undefined || spent === null ? limit : `${limit}, ${usd(spent)} spent`
}

function stateOf({ revoked_at, expires_at, suspended }: Shown, now_ms: number): string {
  if (revoked_at) return "revoked"
  if (expires_at !== null && Date.parse(expires_at) <= now_ms) return "expired"
  return suspended ? "suspended" : "active"
}

function keysTable(data: readonly KeyBody[], { screen }: AdminContext, now_ms: number): string {
  if (data.length === 0) return "This account has no keys yet. Create one: tollgate keys create ACCOUNT"
  return table(
    [
      { title: "ID" },
      { title: "NAME", least: 8 },
      { title: "BEGINS WITH", spare: 3 },
      { title: "STATE" },
      { title: "MODELS", least: 12, spare: 2 },
      { title: "LIMIT", spare: 1 },
      { title: "SPENT", align: "point", spare: 1 },
      { title: "LAST USED", spare: 4 },
    ],
    data.map((key) => [
      key.id,
      key.name ?? "-",
      key.prefix,
      stateOf(key, now_ms),
      key.models?.join(", ") ?? "all",
      key.spending_limit === null ? "-" : `${usd(key.spending_limit.amount)}/${key.spending_limit.per}`,
      key.spent === null ? "-" : usd(key.spent),
      key.last_used_at === null ? "never" : briefMoment(key.last_used_at, now_ms),
    ]),
    screen.width,
    screen.paint,
  )
}

/** A spending limit in the form of the API. */
export interface SpendingLimit {
  readonly amount: string
  readonly per: "day" | "month"
}

/** Reads `25/month`, `5.50/day` or `none`. */
function parseSpendingLimit(text: string): SpendingLimit | null {
  if (text === "none") return null
  const [, amount, per] = /^(\d+(?:\.\d+)?)\/(day|month)$/.exec(text) ?? []
  if (amount === undefined || (per !== "day" && per !== "month")) {
    throw new UsageError(`spending limit: expected ${LIMIT_FORM}, such as 25/month`)
  }
  return { amount, per }
}

import { parseId } from "../id.ts"
import { CreatedKeyBody, KeyBody } from "../wire/admin.ts"
import { ACCOUNT, accountId } from "./account.ts"
import { usd } from "./amount.ts"
import { group } from "./command.ts"
import { UsageComplaint } from "./complaint.ts"
import { type Desk, deskLeaf } from "./desk.ts"
import type { Given } from "./given.ts"
import { extentOf, LIST_ARGS, listAll, remarkMore } from "./list.ts"
import { briefMoment, moment, parseMoment } from "./moment.ts"
import { LIMIT_FORM, parseSpendingLimit } from "./spending-limit.ts"
import { card, table } from "./table.ts"

/** `tollgate keys`: what may spend an account's money (D26, D42). */

const KEY = { type: "positional", required: true, description: "the key's id, as the list shows it" } as const
const EXAMPLE_KEY = "019f8b1c-2222-7000-9d4e-1a6b8c0f7e32"

const list = deskLeaf({
  tells: "List an account's keys, newest first",
  args: { account: ACCOUNT, ...LIST_ARGS },
  examples: [["tollgate keys list Acme", "the revoked and expired ones too"]],
  async run(given, desk) {
    const id = await accountId(desk, given.word("account"))
    const keys = await listAll(desk, `/accounts/${id}/keys`, {}, KeyBody, extentOf(given))
    desk.show(keys, () => keysTable(keys.data, desk, Date.now()))
    remarkMore(desk, keys)
  },
})

const LIMITS = {
  name: { type: "string", valueHint: "NAME", description: "what people call the key" },
  models: { type: "string", valueHint: "A,B", description: "the only models it may use" },
  expires: {
    type: "string",
    valueHint: "TIME",
    description: "when it stops: 2027-12-31, an RFC 3339 time, or 30d",
  },
  limit: { type: "string", valueHint: "25/month", description: `what it may spend: ${LIMIT_FORM}` },
} as const

const create = deskLeaf({
  tells: "Make a key, which is shown this once",
  args: { account: ACCOUNT, ...LIMITS },
  examples: [
    ["tollgate keys create Acme", "for every model, until it is revoked"],
    [
      "tollgate keys create Acme --name ci --models demo-small --expires 30d --limit 5/day",
      "as narrow as you like",
    ],
  ],
  async run(given, desk) {
    const id = await accountId(desk, given.word("account"))
    const key = await desk.office.post(`/accounts/${id}/keys`, wantedOf(given), CreatedKeyBody)
    desk.show(key, () => card([["key", key.key], ...keyLines(key)], desk.screen.paint))
    desk.remark("Keep the key now: it is not shown again.")
  },
})

const change = deskLeaf({
  tells: "Change a key's name, models, expiry or limit",
  details: "What is not given stays as it is; none takes away what was there.",
  args: { key: KEY, ...LIMITS },
  examples: [
    [`tollgate keys change ${EXAMPLE_KEY} --name production`, "another name"],
    [`tollgate keys change ${EXAMPLE_KEY} --models none --expires none`, "every model again, without an end"],
  ],
  async run(given, desk) {
    const change = wantedOf(given)
    if (Object.keys(change).length === 0) {
      throw new UsageComplaint("nothing to change: give --name, --models, --expires or --limit")
    }
    await changeKey(desk, given.word("key"), change)
  },
})

const limit = deskLeaf({
  tells: "Limit what a key may spend in a day or a month",
  args: {
    key: KEY,
    limit: { type: "positional", required: true, description: LIMIT_FORM },
  },
  examples: [
    [
      `tollgate keys limit ${EXAMPLE_KEY} 25/month`,
      "calls beyond it get 402; months and days are those of UTC",
    ],
    [`tollgate keys limit ${EXAMPLE_KEY} none`, "no limit again"],
  ],
  run: (given, desk) =>
    changeKey(desk, given.word("key"), { spending_limit: parseSpendingLimit(given.word("limit")) }),
})

const suspend = deskLeaf({
  tells: "Refuse the calls of a key from now on",
  args: { key: KEY },
  examples: [[`tollgate keys suspend ${EXAMPLE_KEY}`, "calls that run go on; new ones get 403"]],
  run: (given, desk) => changeKey(desk, given.word("key"), { suspended: true }),
})

const resume = deskLeaf({
  tells: "Take the calls of a suspended key again",
  args: { key: KEY },
  examples: [[`tollgate keys resume ${EXAMPLE_KEY}`, "it works as before"]],
  run: (given, desk) => changeKey(desk, given.word("key"), { suspended: false }),
})

const revoke = deskLeaf({
  tells: "End a key for good",
  args: { key: KEY },
  examples: [[`tollgate keys revoke ${EXAMPLE_KEY}`, "every request that arrives from now on gets 401"]],
  async run(given, desk) {
    const id = keyId(given.word("key"))
    await desk.office.delete(`/keys/${id}`)
    desk.show(null, () => `The key ${id} is revoked.`)
  },
})

export const keys = group("Make, list, limit, suspend and revoke keys", {
  list,
  create,
  change,
  limit,
  suspend,
  resume,
  revoke,
})

/** An id, or a complaint that says what was taken for one. */
function keyId(word: string): string {
  const id = parseId(word)
  if (id !== null) return id
  throw new UsageComplaint(`"${word}" is no key's id: "tollgate keys list ACCOUNT" shows them`)
}

async function changeKey(desk: Desk, word: string, body: object): Promise<void> {
  const key = await desk.office.patch(`/keys/${keyId(word)}`, body, KeyBody)
  desk.show(key, () => card(keyLines(key), desk.screen.paint))
}

/** The fields of a key that the flags name, as the API takes them. */
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
  if (time === null) throw new UsageComplaint("--expires: expected 2027-12-31, an RFC 3339 time, or 30d")
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
  const limit = `${usd(spending_limit.amount)} USD a ${spending_limit.per}`
  return spent === undefined || spent === null ? limit : `${limit}, ${usd(spent)} spent`
}

function stateOf({ revoked_at, expires_at, suspended }: Shown, now_ms: number): string {
  if (revoked_at) return "revoked"
  if (expires_at !== null && Date.parse(expires_at) <= now_ms) return "expired"
  return suspended ? "suspended" : "active"
}

function keysTable(data: readonly KeyBody[], { screen }: Desk, now_ms: number): string {
  if (data.length === 0) return "The account has no key yet: tollgate keys create ACCOUNT"
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

import { CommonKeyBody, CreatedKeyBody, KeyBody } from "../wire/admin.ts"
import { keyState } from "../wire/key-state.ts"
import { ACCOUNT, accountId } from "./accounts.ts"
import { type AdminContext, adminCommand, listCommand } from "./admin-command.ts"
import { UsageError } from "./cli-error.ts"
import type { Given, Group } from "./command.ts"
import { briefMoment, moment } from "./moment.ts"
import { columnsOf, linesOf, usd } from "./screen.ts"
import { idOf, pairsIn, timeAhead } from "./typed-words.ts"

/** `tollgate keys`: the API keys of an account (D26, D42). */

const KEY = { "<key>": 'the id of the key, as shown by "tollgate keys list"' } as const
const EXAMPLE_KEY = "019f8b1c-2222-7000-9d4e-1a6b8c0f7e32"

const column = columnsOf(KeyBody)

const LIMIT_FORM = "AMOUNT/day, AMOUNT/month or none"
const LABELS = "a list such as team=search,env=prod"

const FIELDS = {
  "--name <NAME>": "the name of the key",
  "--models <A,B>": "the models that it can use",
  "--expires <TIME>": "when it expires: 2027-12-31, an RFC 3339 time, or 30d (from now)",
  "--limit <25/month>": `its spending limit: ${LIMIT_FORM}`,
  "--labels <A=B,C=D>": "tags of all its calls, which no client can change",
  "--required-tags <A,B>": "tags without which its calls are refused",
  "--client-tags <WORD>": "accepted or ignored: what happens to tags and end users of clients",
  "--group <PATH>": "its group, for budgets: a path such as acme/search, or none",
} as const

export const keys: Group = {
  summary: "Create, list, change, limit, suspend, resume, rotate and revoke keys",
  commands: {
    list: listCommand({
      summary: "List an account's keys, newest first",
      words: ACCOUNT,
      examples: { "tollgate keys list Acme": "includes revoked and expired keys" },
      entry: KeyBody,
      columns: [
        column("id"),
        column("name", { least: 8 }),
        column("prefix", { spare: 3 }),
        column("suspended", { of: (key) => keyState(key, Date.now()) }),
        column("models", { of: modelsOf, least: 12, spare: 2 }),
        column("spending_limit", {
          of: ({ spending_limit: limit }) => limit && `${usd(limit.amount)}/${limit.per}`,
          spare: 1,
        }),
        column("spent", { spare: 1 }),
        column("last_used_at", {
          of: ({ last_used_at }) => (last_used_at === null ? "never" : briefMoment(last_used_at, Date.now())),
          spare: 4,
        }),
      ],
      empty: "This account has no keys yet. Create one: tollgate keys create ACCOUNT",
      path: async ({ account }, context) => [`/accounts/${await accountId(context, account)}/keys`],
    }),
    create: adminCommand({
      summary: "Create a key and show it once",
      words: { ...ACCOUNT, ...FIELDS },
      examples: {
        "tollgate keys create Acme": "for all models, until it is revoked",
        "tollgate keys create Acme --name ci --models demo-small --expires 30d --limit 5/day":
          "with restrictions",
      },
      async run({ account, ...fields }, context) {
        const id = await accountId(context, account)
        showSecret(
          context,
          await context.client.post(`/accounts/${id}/keys`, fieldsOf(fields), CreatedKeyBody),
        )
      },
    }),
    change: adminCommand({
      summary: "Change a key's name, models, expiry, limit, group or tags",
      details: "Flags that are not given change nothing. The value none removes a setting.",
      words: { ...KEY, ...FIELDS },
      examples: {
        [`tollgate keys change ${EXAMPLE_KEY} --name production`]: "another name",
        [`tollgate keys change ${EXAMPLE_KEY} --models none --expires none`]:
          "allow all models, and remove the expiry",
      },
      async run({ key, ...given }, context) {
        const fields = fieldsOf(given)
        if (Object.values(fields).every((value) => value === undefined))
          throw new UsageError(
            "nothing to change: use --name, --models, --expires, --limit, --group or a flag for tags",
          )
        await changeKey(context, key, fields)
      },
    }),
    limit: adminCommand({
      summary: "Set the spending limit of a key per day or month",
      words: { ...KEY, "<limit>": LIMIT_FORM },
      examples: {
        [`tollgate keys limit ${EXAMPLE_KEY} 25/month`]:
          "calls above the limit get 402; days and months are in UTC",
        [`tollgate keys limit ${EXAMPLE_KEY} none`]: "remove the limit",
      },
      run: ({ key, limit }, context) =>
        changeKey(context, key, { spending_limit: orNull(limit, parseSpendingLimit) }),
    }),
    suspend: adminCommand({
      summary: "Suspend a key: refuse its new calls",
      words: KEY,
      examples: { [`tollgate keys suspend ${EXAMPLE_KEY}`]: "calls in progress continue, new ones get 403" },
      run: ({ key }, context) => changeKey(context, key, { suspended: true }),
    }),
    resume: adminCommand({
      summary: "Resume a suspended key",
      words: KEY,
      examples: { [`tollgate keys resume ${EXAMPLE_KEY}`]: "it works again" },
      run: ({ key }, context) => changeKey(context, key, { suspended: false }),
    }),
    rotate: adminCommand({
      summary: "Make a new secret for a key and show it once",
      details: "The id, the limits, the budgets and the usage of the key stay.",
      words: { ...KEY, "--keep-hours <N>": "how long the secret before also works: 0 to 168 (default: 24)" },
      examples: {
        [`tollgate keys rotate ${EXAMPLE_KEY}`]: "both secrets work for a day",
        [`tollgate keys rotate ${EXAMPLE_KEY} --keep-hours 0`]: "the one before ends immediately",
      },
      async run({ key, "keep-hours": hours }, context) {
        const body = hours === undefined ? {} : { keep_hours: Number(hours) }
        showSecret(context, await context.client.post(`/keys/${keyId(key)}/rotate`, body, CreatedKeyBody))
      },
    }),
    revoke: adminCommand({
      summary: "Revoke a key permanently",
      words: KEY,
      examples: { [`tollgate keys revoke ${EXAMPLE_KEY}`]: "every new request with it gets 401" },
      async run({ key }, context) {
        const id = keyId(key)
        await context.client.delete(`/keys/${id}`)
        context.show(null, () => `Revoked the key ${id}.`)
      },
    }),
  },
}

const keyId = (word: string) => idOf(word, "a key", '"tollgate keys list ACCOUNT" lists the ids')

function showSecret(context: AdminContext, key: CreatedKeyBody): void {
  showKey(context, key)
  context.remark("Store the key now: it is not shown again.")
}

async function changeKey(context: AdminContext, word: string, fields: object): Promise<void> {
  showKey(context, await context.client.patch(`/keys/${keyId(word)}`, fields, KeyBody))
}

function fieldsOf({
  name,
  models,
  expires,
  limit,
  labels,
  "required-tags": required,
  "client-tags": client_tags,
  group,
}: Given<typeof FIELDS>) {
  return {
    name: orNull(name, (text) => text),
    models: orNull(models, listOf),
    expires_at: orNull(expires, (text) => timeAhead("--expires", text)),
    spending_limit: orNull(limit, parseSpendingLimit),
    labels: orNull(labels, (text) => Object.fromEntries(pairsIn("--labels", text, LABELS))),
    required_tags: orNull(required, listOf),
    client_tags,
    group: orNull(group, (text) => text),
  }
}

function listOf(text: string): string[] {
  return text.split(",").map((word) => word.trim())
}

/** The value of a flag; `none` is null. */
function orNull<Value>(text: string | undefined, read: (text: string) => Value): Value | null | undefined {
  return text === undefined ? undefined : text === "none" ? null : read(text)
}

export function tagsText(tags: Readonly<Record<string, string>>): string {
  return Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ")
}

/** The fields that a new key and a listed one have in common. */
type ShownKey = CreatedKeyBody & Partial<Pick<KeyBody, "spent" | "revoked_at">>

function showKey(context: AdminContext, key: CreatedKeyBody | KeyBody): void {
  const { labels, required_tags, client_tags } = key
  context.showCard(CommonKeyBody, key, (line) => [
    ...("key" in key ? [linesOf(CreatedKeyBody, key)("key")] : []),
    ...line.each("id", "name", "prefix"),
    line("suspended", keyState(key, Date.now())),
    line("models", modelsOf(key)),
    line("expires_at", key.expires_at === null ? "never" : moment(key.expires_at)),
    line("previous_until", key.previous_until === null ? undefined : moment(key.previous_until)),
    line("spending_limit", limitOf(key)),
    line("group", key.group ?? undefined),
    line("labels", Object.keys(labels).length === 0 ? undefined : tagsText(labels)),
    line("required_tags", required_tags.length === 0 ? undefined : required_tags.join(", ")),
    line("client_tags", client_tags === "ignored" ? client_tags : undefined),
  ])
}

function modelsOf({ models }: Pick<ShownKey, "models">): string {
  return models?.join(", ") ?? "all"
}

function limitOf({ spending_limit, spent }: Pick<ShownKey, "spending_limit" | "spent">): string {
  if (spending_limit === null) return "none"
  const limit = `${usd(spending_limit.amount)} USD per ${spending_limit.per}`
  return spent === undefined || spent === null ? limit : `${limit}, ${usd(spent)} spent`
}

/** Reads `25/month` or `5.50/day`. */
function parseSpendingLimit(text: string): NonNullable<KeyBody["spending_limit"]> {
  const [, amount, per] = /^(\d+(?:\.\d+)?)\/(day|month)$/.exec(text) ?? []
  if (amount !== undefined && (per === "day" || per === "month")) return { amount, per }
  throw new UsageError(`spending limit: expected ${LIMIT_FORM}, such as 25/month`)
}

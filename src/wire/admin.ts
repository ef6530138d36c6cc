import { type SchemaOptions, type Static, type TProperties, type TSchema, Type } from "@sinclair/typebox"
import { parseMultiplier, parseUsd, printMultiplier, printUsd } from "../money.ts"
import { bases, endings, failures, notes, operationNames, periods, states } from "./call.ts"
import { callDetails } from "./call-details.ts"
import { EXPECTED, invalidField } from "./fault.ts"
import { choice, decoded, fields, nullable, oneOf, optional, resource, text, titled, UNIT } from "./field.ts"
import { clientTags, KeyLabels, RequiredTags, tags } from "./labels.ts"
import { Line, Prices } from "./prices.ts"
import { parseTime, printTime } from "./time.ts"

/** Requests and answers under `/admin`: each schema with its type beside it. */

const UUID = "^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
/** One line: no control characters, which logs and terminals would act on and Postgres partly refuses. */
const LINE = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"
const LIMIT = "USD as a decimal string, 0 or more, with at most 9 digits before and 9 after the point"
const LIMIT_FORM = "^\\d{1,9}(?:\\.\\d{1,9})?$"
const SIGNED = "USD as a decimal string with at most 9 digits before and 9 after the point"
export const SIGNED_FORM = "^-?\\d{1,9}(?:\\.\\d{1,9})?$"
const PRICE_MULTIPLIER = "a decimal string above 0 and at most 1000, with at most 4 digits after the point"
/** Above 0 and at most 1000. */
const MULTIPLIER_FORM =
  "^(?:(?:0?[1-9]\\d{0,2}|00[1-9]\\d?|000[1-9])(?:\\.\\d{1,4})?|1000(?:\\.0{1,4})?|0{1,4}\\.(?:[1-9]\\d{0,3}|0[1-9]\\d{0,2}|00[1-9]\\d?|000[1-9]))$"
/** RFC 3339 from 1970 on. Whether the day exists is checked when it is read. */
const TIME_FORM =
  "^(?:19[7-9]\\d|[2-9]\\d{3})-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\\d|3[01])[Tt](?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)$"
export const TIME = "an RFC 3339 time"
export const EXPIRY = `${TIME} in the future`

export const Id = Type.String({ format: "uuid" })
export const Time = Type.String({ format: "date-time", description: "RFC 3339, in UTC." })
export const Money = Type.String({
  pattern: "^-?\\d+(?:\\.\\d{1,9})?$",
  description: "A USD amount as a decimal string with at most nine decimals.",
  [UNIT]: "usd",
})
export const usd = (description: string) => Type.String({ ...Money, description })
export const Count = Type.Integer({ minimum: 0 })
export const Milliseconds = Type.Integer({ minimum: 0, [UNIT]: "ms" })

export const line = (maxLength: number, description: string) =>
  Type.String({
    minLength: 1,
    maxLength,
    pattern: LINE,
    description,
    [EXPECTED]: `1 to ${maxLength} characters on a single line`,
  })
/** The schema or null, which removes the value. Errors are those of the schema. */
export const orNull = <S extends TSchema>(schema: S) =>
  Type.Union([schema, Type.Null()], { [EXPECTED]: `${schema[EXPECTED]}, or null` })
export const closed = { additionalProperties: false, [EXPECTED]: "a JSON object" }
export const requestBody = <P extends TProperties>(properties: P) => Type.Object(properties, closed)

export const listOf = <S extends TSchema>(schema: S) =>
  Type.Object({
    data: Type.Array(schema),
    next: nullable(text("The `after` of the next page; null on the last page.")),
  })

const amounts = fields({
  balance: Money,
  held: Money,
  available: Money,
})

export const PriceMultiplier = Type.String({
  pattern: "^\\d+(?:\\.\\d{1,4})?$",
  description: "The factor for the prices of this account.",
})

export const AccountBody = resource({
  id: titled("ID", Id),
  name: Type.String(),
  external_id: nullable(text("Your own id of the account, which no other account has.")),
  ...amounts,
  credit_limit: usd("The allowed overdraft: how far calls can take the balance below 0."),
  low_balance: nullable(usd("There is an event when the balance falls below it; null for none.")),
  price_multiplier: PriceMultiplier,
  suspended: titled("State", Type.Boolean({ description: "Whether new calls of the account are refused." })),
  may_manage_keys: titled(
    "Own keys",
    Type.Boolean({ description: "Whether holders of its keys can make, rotate and revoke keys (D104)." }),
  ),
  created_at: titled("Created", Time),
  shard: Type.Optional(text("The shard of the account, if there are several.")),
})
export type AccountBody = Static<typeof AccountBody>

/** The balance of an account at a time (D55). */
export const BalanceBody = resource({
  account_id: titled("Account", Id),
  at: Time,
  ...amounts,
})
export type BalanceBody = Static<typeof BalanceBody>

/** A string that is decoded to a value. `parse` returns null for a string that is not as `expected` says. */
export const parsed = <Value>(
  name: string,
  expected: string,
  keywords: SchemaOptions,
  parse: (text: string) => Value | null,
  print: (value: Value) => string,
) =>
  decoded(
    Type.String({ ...keywords, [EXPECTED]: expected }),
    (text) => {
      const value = parse(text)
      if (value === null) throw invalidField(name, expected)
      return value
    },
    print,
  )

/** An id that the client creates, so that it can repeat the request. Decoded to the canonical form. */
export const ownId = (description: string) =>
  Type.Optional(
    decoded(
      Type.String({ pattern: UUID, description, [EXPECTED]: "a UUID" }),
      (text) => text.toLowerCase(),
      (id) => id,
    ),
  )
export const trueOrFalse = (description: string) => Type.Boolean({ description, [EXPECTED]: "true or false" })
const Suspended = trueOrFalse("`true` refuses all new calls, `false` accepts them again.")
const MayManageKeys = trueOrFalse(
  "True lets the holders of the account's keys make, rotate and revoke keys, with no more rights than their own. Default: false.",
)
export const OwnReason = Type.Optional(line(500, "The reason, recorded in the journal."))

const ownMultiplier = (name: string, description: string) =>
  parsed(name, PRICE_MULTIPLIER, { pattern: MULTIPLIER_FORM, description }, parseMultiplier, printMultiplier)
export const OwnMultiplier = ownMultiplier(
  "price_multiplier",
  "The factor for the prices of this account: a decimal string above 0 and at most 1000. It applies to new calls.",
)
/** The name of `price_multiplier` in version 0.2. */
const OldMultiplier = ownMultiplier(
  "margin",
  "The old name of `price_multiplier`. Version 2 does not accept it.",
)

const ExternalId = line(200, "Your own id of the account. No other account can have it.")
const CreditLimit = parsed(
  "credit_limit",
  LIMIT,
  {
    pattern: LIMIT_FORM,
    description:
      "USD as a decimal string: the allowed overdraft. New calls can take the balance down to minus this.",
  },
  parseUsd,
  printUsd,
)
const LowBalance = parsed(
  "low_balance",
  SIGNED,
  {
    pattern: SIGNED_FORM,
    description:
      "USD as a decimal string: the event `tollgate.balance.low` is sent when the balance falls below it. Null for none.",
  },
  parseUsd,
  printUsd,
)

const accountSettings = optional({
  credit_limit: CreditLimit,
  low_balance: orNull(LowBalance),
  may_manage_keys: MayManageKeys,
  price_multiplier: OwnMultiplier,
  margin: OldMultiplier,
})

export const NewAccount = requestBody({
  id: ownId("Makes the request safe to retry: the same id never creates two accounts."),
  name: line(200, "A name for the account."),
  external_id: Type.Optional(ExternalId),
  ...accountSettings,
})
export const AccountChange = requestBody({
  ...optional({
    name: line(200, "A name for the account."),
    external_id: orNull(ExternalId),
    suspended: Suspended,
  }),
  ...accountSettings,
})

const SpendingLimitBody = Type.Object(
  {
    amount: Type.String({
      pattern: LIMIT_FORM,
      description: "A USD amount as a decimal string with at most nine decimals.",
      [EXPECTED]: LIMIT,
    }),
    per: oneOf(periods, "The period, in UTC.", "day or month"),
  },
  {
    ...closed,
    description: "The most that the key's calls can cost in a day or a month.",
    [EXPECTED]: 'an object such as {"amount": "25", "per": "month"}',
  },
)

const keyFields = fields({
  id: titled("ID", Id),
  name: nullable(Type.String({ examples: ["production"] })),
  prefix: titled("Begins with", text("The first characters of the key, to identify it.")),
  models: nullable(Type.Array(Type.String(), { description: "The models that the key can use; null: all." })),
  expires_at: titled("Expires", nullable(Time)),
  suspended: titled("State", Type.Boolean({ description: "Whether new calls with the key are refused." })),
  spending_limit: titled("Limit", nullable(SpendingLimitBody)),
  group: nullable(text("The group of the key, for budgets: a path such as `acme/search`.")),
  labels: tags("Tags of all calls with the key (D94)."),
  required_tags: titled("Required tags", Type.Array(Type.String()), "Tags without which a call is refused."),
  client_tags: titled(
    "Client tags",
    choice(clientTags),
    "Whether tags and end users that clients send are recorded or ignored.",
  ),
  created_at: titled("Created", Time),
  previous_until: titled(
    "Secret before until",
    nullable(
      Time,
      "Until then the secret before the last rotation works too. Null if the key was not rotated with a grace time, or is revoked.",
    ),
  ),
})

export const CommonKeyBody = Type.Object(keyFields)

export const KeyBody = resource({
  ...keyFields,
  spent: nullable(
    usd(
      "What counts against the limit in the current period: the charges of settled calls plus what open calls hold. Null without a limit.",
    ),
  ),
  revoked_at: titled("Revoked", nullable(Time)),
  last_used_at: titled("Last used", nullable(Time)),
})
export type KeyBody = Static<typeof KeyBody>

export const CreatedKeyBody = resource({
  ...keyFields,
  key: text("The key itself. It is shown only once."),
})
export type CreatedKeyBody = Static<typeof CreatedKeyBody>

const KeyName = line(200, "A name for the key.")
const KeyModels = Type.Array(line(256, "The name of a model."), {
  minItems: 1,
  maxItems: 256,
  description: "The models that the key can use. They need not be configured yet.",
  [EXPECTED]: "an array of 1 to 256 model names",
})
const KeyExpiry = timeField("expires_at", "When the key expires, as an RFC 3339 time.", EXPIRY)
const SpendingLimit = decoded(
  SpendingLimitBody,
  ({ amount, per }) => {
    const limit_nano = parseUsd(amount)
    if (limit_nano === null) throw invalidField("spending_limit.amount", LIMIT)
    return { limit_nano, period: per }
  },
  ({ limit_nano, period }) => ({ amount: printUsd(limit_nano), per: period }),
)

const tagRules = {
  labels: orNull(KeyLabels),
  required_tags: orNull(RequiredTags),
  client_tags: oneOf(
    clientTags,
    "`ignored`: tags and end users that clients send are not recorded. Default: accepted.",
    clientTags.join(" or "),
  ),
}
/** Parts of letters, digits and `. _ @ -`, with slashes between them. */
const PART = "[A-Za-z0-9._@-]{1,64}"
export const KeyGroup = Type.String({
  pattern: `^${PART}(?:/${PART}){0,7}$`,
  description:
    "The group of the key, for budgets (D97): a path such as `acme/search`. The key also belongs to the groups above it.",
  [EXPECTED]: "a path of at most 8 names, such as acme/search",
})

export const NewKey = requestBody({
  id: ownId("Makes the request safe to retry: the same id never creates two keys."),
  ...optional({
    name: KeyName,
    models: KeyModels,
    expires_at: KeyExpiry,
    spending_limit: orNull(SpendingLimit),
    ...tagRules,
    group: KeyGroup,
  }),
})

export function timeField(name: string, description: string, expected: string) {
  return parsed(name, expected, { pattern: TIME_FORM, description }, parseTime, printTime)
}

/** Throws `invalid_request` for a time that is not after `now_ms`. */
export function checkExpiry(at: Date | null | undefined, now_ms: number, field = "expires_at"): void {
  if (at && at.getTime() <= now_ms) throw invalidField(field, EXPIRY)
}

export const KeyChange = requestBody(
  optional({
    name: orNull(KeyName),
    models: orNull(KeyModels),
    expires_at: orNull(KeyExpiry),
    suspended: Suspended,
    spending_limit: orNull(SpendingLimit),
    ...tagRules,
    group: orNull(KeyGroup),
  }),
)

export const CallBody = resource({
  id: titled("ID", Id),
  account_id: titled("Account", Id),
  key_id: titled("Key", Id),
  model: Type.String(),
  operation: titled(
    "Operation",
    choice(operationNames),
    "What the call asks the model for: `chat` is a chat completion.",
  ),
  family: choice(["chat", "messages"]),
  upstream: text("The upstream that answered, or the first one tried if none did."),
  stream: Type.Boolean(),
  session_id: titled("Session", nullable(text("What the client sent as `x-claude-code-session-id`."))),
  tags: tags("Tags of the call: the labels of its key, and those that the client sent."),
  end_user: nullable(text("The end user that the client named; null for none, or once it is forgotten.")),
  end_user_id: nullable(Id),
  agent_id: titled("Agent", nullable(text("What it sent as `x-claude-code-agent-id`."))),
  state: choice(states),
  basis: choice(bases),
  ending: nullable(choice(endings)),
  failure: nullable(choice(failures)),
  notes: Type.Array(choice(notes)),
  held: Money,
  charge: nullable(Money),
  overage: nullable(Money),
  refunded: Type.Optional(
    nullable({
      ...Money,
      description:
        "The sum of the call's refunds (D106), in the answer for one call; null while one of several databases does not answer.",
    }),
  ),
  cost: nullable(
    usd(
      "What the usage costs at the prices of the configuration, rounded up once: the charge without a price multiplier or customer price.",
    ),
  ),
  price_multiplier: titled(
    "Price multiplier",
    PriceMultiplier,
    "The price multiplier of the account, or of its customer price, when the call was held; 1 with prices by kind.",
  ),
  usage: nullable(
    Type.Object({
      prompt_tokens: titled("Prompt", Count),
      cached_tokens: titled("Cached", Count),
      completion_tokens: titled("Output", Count),
    }),
  ),
  ...callDetails,
  customer_price_id: titled(
    "Customer price",
    nullable({ ...Id, description: "The customer price whose prices by kind the call was sold at." }),
  ),
  prices: Prices,
  list_prices: nullable(
    Prices,
    "The prices of the configuration, if `prices` are those of a customer price.",
  ),
  lines: Type.Array(Line, {
    description:
      "What the charge consists of: the sum of the costs, times `price_multiplier`, rounded up once to a billionth of a USD.",
  }),
  started_at: titled("Started", Time),
  settled_at: titled("Settled", nullable(Time)),
  ttft_ms: titled("First output", nullable(Milliseconds)),
  duration_ms: titled("Took", nullable(Milliseconds)),
})
export type CallBody = Static<typeof CallBody>

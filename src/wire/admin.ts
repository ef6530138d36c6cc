import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { GatewayError } from "../errors.ts"
import { parseUsd } from "../money.ts"
import { bases, endings, failures, notes, type Period, periods, states } from "./call.ts"
import { EXPECTED, invalidBody } from "./fault.ts"
import { parseTime } from "./time.ts"

/** What operators send and get under `/admin`: each schema with its type beside it. */

const UUID = "^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
/** One line: no control characters, which logs and terminals would act on and Postgres partly refuses. */
const LINE = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"

const LIMIT = "USD as a decimal string with at most nine whole digits and nine decimals, and not negative"
const AMOUNT = "USD as a decimal string with at most nine whole digits and nine decimals, and not 0"
const EXPIRY = "an RFC 3339 time in the future"

const Id = Type.String({ format: "uuid" })
const Time = Type.String({ format: "date-time", description: "RFC 3339, in UTC." })
const Money = Type.String({
  pattern: "^-?\\d+(?:\\.\\d{1,9})?$",
  description: "USD as a decimal string with at most nine decimals.",
})
const Price = Type.String({ pattern: "^\\d+(?:\\.\\d{1,6})?$", description: "USD per 1M tokens." })
const Count = Type.Integer({ minimum: 0 })

const line = (maxLength: number, description: string) =>
  Type.String({
    minLength: 1,
    maxLength,
    pattern: LINE,
    description,
    [EXPECTED]: `one line of 1 to ${maxLength} characters`,
  })
/** Null takes the value away; a value that is wrong is told as the schema itself would. */
const orNull = <S extends TSchema>(schema: S) =>
  Type.Union([schema, Type.Null()], { [EXPECTED]: `${schema[EXPECTED]}, or null` })
const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])
/** Of the type string, so that a word a newer gateway wrote is shown and not refused. */
const word = (words: readonly string[]) => Type.String({ enum: [...words] })
const closed = { additionalProperties: false, [EXPECTED]: "a JSON object" }

export const listOf = <S extends TSchema>(schema: S) =>
  Type.Object({
    data: Type.Array(schema),
    next: nullable(Type.String({ description: "The `after` of the next page." })),
  })

const amounts = { balance: Money, held: Money, available: Money }

export const AccountBody = Type.Object({
  id: Id,
  name: Type.String(),
  ...amounts,
  suspended: Type.Boolean({ description: "Whether calls of the account are refused." }),
  created_at: Time,
})
export type AccountBody = Static<typeof AccountBody>

/** What an account had at a moment (D55). */
export const BalanceBody = Type.Object({ account_id: Id, at: Time, ...amounts })
export type BalanceBody = Static<typeof BalanceBody>

/** An id that the caller makes up, so that a creation may be repeated. */
const ownId = (description: string) =>
  Type.Optional(Type.String({ pattern: UUID, description, [EXPECTED]: "a UUID" }))
const Suspended = Type.Boolean({
  description: "True to refuse every call that arrives from now on, false to take them again.",
  [EXPECTED]: "true or false",
})

export const NewAccount = Type.Object(
  {
    id: ownId("Makes the creation safe to repeat: the same id never opens two accounts."),
    name: line(200, "What people call the account."),
  },
  closed,
)
/** An account to open, read from its body; without an id the caller makes one. */
export interface NewAccount {
  readonly id: string | null
  readonly name: string
}

export const AccountChange = Type.Object(
  { name: Type.Optional(line(200, "What people call the account.")), suspended: Type.Optional(Suspended) },
  closed,
)
export type AccountChange = Static<typeof AccountChange>

export const CreditBody = Type.Object({
  id: Id,
  amount: Money,
  reason: nullable(Type.String()),
  created_at: Time,
})
export type CreditBody = Static<typeof CreditBody>

export const CreditedBody = Type.Composite([CreditBody, Type.Object({ account: AccountBody })])
export type CreditedBody = Static<typeof CreditedBody>

export const NewCredit = Type.Object(
  {
    id: ownId("Makes the credit safe to repeat: the same id never moves money twice."),
    amount: Type.String({
      pattern: "^-?\\d{1,9}(?:\\.\\d{1,9})?$",
      description: "USD as a decimal string; a negative one takes money off, to correct.",
      [EXPECTED]: AMOUNT,
    }),
    reason: Type.Optional(line(500, "Why, for the journal.")),
  },
  closed,
)
/** A credit to write, read from its body; without an id the caller makes one. */
export interface NewCredit {
  readonly id: string | null
  readonly amount_nano: bigint
  readonly reason: string | null
}

export const SpendingLimitBody = Type.Object(
  {
    amount: Type.String({
      pattern: "^\\d{1,9}(?:\\.\\d{1,9})?$",
      description: "USD as a decimal string with at most nine decimals.",
      [EXPECTED]: LIMIT,
    }),
    per: Type.Union(
      periods.map((period) => Type.Literal(period)),
      { description: "Days and months are those of UTC.", [EXPECTED]: "day or month" },
    ),
  },
  {
    ...closed,
    description: "What the key's calls may cost in a day or a month.",
    [EXPECTED]: "an object of amount, USD as a decimal string, and per, day or month",
  },
)

const keyFields = {
  id: Id,
  name: nullable(Type.String()),
  prefix: Type.String({ description: "The first characters of the key, to tell keys apart." }),
  models: nullable(Type.Array(Type.String(), { description: "The models the key may use; null: all." })),
  expires_at: nullable(Time),
  suspended: Type.Boolean({ description: "Whether calls with the key are refused." }),
  spending_limit: nullable(SpendingLimitBody),
  created_at: Time,
}

export const KeyBody = Type.Object({
  ...keyFields,
  spent: nullable(
    Type.String({
      pattern: "^-?\\d+(?:\\.\\d{1,9})?$",
      description:
        "What counts against the limit in this period: the charges of its calls, and what open ones hold; null without a limit.",
    }),
  ),
  revoked_at: nullable(Time),
  last_used_at: nullable(Time),
})
export type KeyBody = Static<typeof KeyBody>

export const CreatedKeyBody = Type.Object({
  ...keyFields,
  key: Type.String({ description: "The key itself, shown this once." }),
})
export type CreatedKeyBody = Static<typeof CreatedKeyBody>

const KeyName = line(200, "What people call the key.")
const KeyModels = Type.Array(line(256, "A model's name."), {
  minItems: 1,
  maxItems: 256,
  description: "The only models the key may use, also ones that are not configured yet.",
  [EXPECTED]: "an array of 1 to 256 model names",
})
const KeyExpiry = Type.String({
  description: "When the key stops, as an RFC 3339 time.",
  [EXPECTED]: EXPIRY,
})

export const NewKey = Type.Object(
  {
    id: ownId("Makes the creation safe to repeat: the same id never makes two keys."),
    name: Type.Optional(KeyName),
    models: Type.Optional(KeyModels),
    expires_at: Type.Optional(KeyExpiry),
    spending_limit: Type.Optional(orNull(SpendingLimitBody)),
  },
  closed,
)
/** A key to make, read from its body; without an id the caller makes one. */
export interface NewKey {
  readonly id: string | null
  readonly name: string | null
  readonly models: readonly string[] | null
  readonly expires_at: Date | null
  readonly spending: Spending | null
}

/** A spending limit, read from its body. */
export interface Spending {
  readonly limit_nano: bigint
  readonly period: Period
}

export const KeyChange = Type.Object(
  {
    name: Type.Optional(orNull(KeyName)),
    models: Type.Optional(orNull(KeyModels)),
    expires_at: Type.Optional(orNull(KeyExpiry)),
    suspended: Type.Optional(Suspended),
    spending_limit: Type.Optional(orNull(SpendingLimitBody)),
  },
  closed,
)
/** What of a key is to be otherwise, read from its body; null takes a limit away, what is left out stays. */
export interface KeyChange {
  readonly name?: string | null
  readonly models?: readonly string[] | null
  readonly expires_at?: Date | null
  readonly suspended?: boolean
  readonly spending?: Spending | null
}

export const CallBody = Type.Object({
  id: Id,
  account_id: Id,
  key_id: Id,
  model: Type.String(),
  family: word(["chat", "messages"]),
  upstream: Type.String({ description: "The upstream that answered, else the first one tried." }),
  stream: Type.Boolean(),
  state: word(states),
  basis: word(bases),
  ending: nullable(word(endings)),
  failure: nullable(word(failures)),
  notes: Type.Array(word(notes)),
  reserved: Money,
  charge: nullable(Money),
  overage: nullable(Money),
  usage: nullable(Type.Object({ prompt_tokens: Count, cached_tokens: Count, completion_tokens: Count })),
  prices: Type.Object({ input: Price, cached_input: Price, output: Price, per_call: Money }),
  started_at: Time,
  settled_at: nullable(Time),
  ttft_ms: nullable(Count),
  duration_ms: nullable(Count),
})
export type CallBody = Static<typeof CallBody>

/** What an audit finds wrong (D55). */
export const AuditBody = Type.Object({
  checked_at: Time,
  accounts: Count,
  open_reservations: Count,
  violations: Type.Array(
    Type.Object({
      kind: Type.String({
        enum: ["balance", "held", "spent", "charge", "entry", "unheld"],
        description:
          "`balance` and `held`: an account and the sum of its entries. `spent`: what a key's spending limit has counted, and its calls. `charge`: a call's charge, and its tokens at its prices. `entry`: an end that does not fit its hold, or a correction that does not fit its expiry. `unheld`: a settlement without a hold, which waits in the spool of this gateway.",
      }),
      account_id: Id,
      id: nullable(
        Type.String({ description: "The key of `spent`, the call of `charge`, `entry` and `unheld`." }),
      ),
      recorded: nullable(Money),
      expected: nullable(Money),
    }),
    {
      description:
        "`recorded` is null for entries of an account that does not exist, `expected` where the entry that decides it is not there.",
    },
  ),
})
export type AuditBody = Static<typeof AuditBody>

const newAccount = TypeCompiler.Compile(NewAccount)
const accountChange = TypeCompiler.Compile(AccountChange)
const newCredit = TypeCompiler.Compile(NewCredit)
const newKey = TypeCompiler.Compile(NewKey)
const keyChange = TypeCompiler.Compile(KeyChange)

/** Reads the body of a new account; throws `invalid_request` with the field at fault. */
export function parseNewAccount(body: object): NewAccount {
  if (!newAccount.Check(body)) throw invalidBody(NewAccount, body)
  return { id: body.id?.toLowerCase() ?? null, name: body.name }
}

/** Reads the body of a change to an account; throws `invalid_request` with the field at fault. */
export function parseAccountChange(body: object): AccountChange {
  if (!accountChange.Check(body)) throw invalidBody(AccountChange, body)
  return body
}

/** Reads the body of a credit; throws `invalid_request` with the field at fault. */
export function parseNewCredit(body: object): NewCredit {
  if (!newCredit.Check(body)) throw invalidBody(NewCredit, body)
  const amount_nano = parseUsd(body.amount)
  if (amount_nano === null || amount_nano === 0n) throw invalid("amount", AMOUNT)
  return { id: body.id?.toLowerCase() ?? null, amount_nano, reason: body.reason ?? null }
}

/** Reads the body of a key; throws `invalid_request` with the field at fault. */
export function parseNewKey(body: object, now_ms: number): NewKey {
  if (!newKey.Check(body)) throw invalidBody(NewKey, body)
  const { name = null, models = null, expires_at, spending_limit } = body
  return {
    id: body.id?.toLowerCase() ?? null,
    name,
    models,
    expires_at: expires_at === undefined ? null : parseExpiry(expires_at, now_ms),
    spending: spending_limit ? spendingOf(spending_limit) : null,
  }
}

/** Reads the body of a change to a key; throws `invalid_request` with the field at fault. */
export function parseKeyChange(body: object, now_ms: number): KeyChange {
  if (!keyChange.Check(body)) throw invalidBody(KeyChange, body)
  const { expires_at, spending_limit, ...change } = body
  return {
    ...change,
    ...(expires_at === undefined
      ? {}
      : { expires_at: expires_at === null ? null : parseExpiry(expires_at, now_ms) }),
    ...(spending_limit === undefined ? {} : { spending: spending_limit && spendingOf(spending_limit) }),
  }
}

function parseExpiry(text: string, now_ms: number): Date {
  const expires_at = parseTime(text)
  if (expires_at === null || expires_at.getTime() <= now_ms) throw invalid("expires_at", EXPIRY)
  return expires_at
}

function spendingOf({ amount, per }: Static<typeof SpendingLimitBody>): Spending {
  const limit_nano = parseUsd(amount)
  if (limit_nano === null) throw invalid("spending_limit.amount", LIMIT)
  return { limit_nano, period: per }
}

function invalid(param: string, expected: string): GatewayError {
  return new GatewayError("invalid_request", { message: `\`${param}\`: expected ${expected}.`, param })
}

import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { GatewayError } from "../errors.ts"
import { parseUsd } from "../money.ts"
import { bases, endings, failures, notes, states } from "./call.ts"
import { EXPECTED, invalidBody } from "./fault.ts"
import { parseTime } from "./time.ts"

/** What operators send and get under `/admin`: each schema with its type beside it. */

const UUID = "^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
/** One line: no control characters, which logs and terminals would act on and Postgres partly refuses. */
const LINE = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"

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
const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])
/** Of the type string, so that a word a newer gateway wrote is shown and not refused. */
const word = (words: readonly string[]) => Type.String({ enum: [...words] })
const closed = { additionalProperties: false, [EXPECTED]: "a JSON object" }

export const listOf = <S extends TSchema>(schema: S) =>
  Type.Object({
    data: Type.Array(schema),
    next: nullable(Type.String({ description: "The `after` of the next page." })),
  })

export const AccountBody = Type.Object({
  id: Id,
  name: Type.String(),
  balance: Money,
  held: Money,
  available: Money,
  created_at: Time,
})
export type AccountBody = Static<typeof AccountBody>

export const NewAccount = Type.Object({ name: line(200, "What people call the account.") }, closed)
export type NewAccount = Static<typeof NewAccount>

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
    id: Type.Optional(
      Type.String({
        pattern: UUID,
        description: "Makes the credit safe to repeat: the same id never moves money twice.",
        [EXPECTED]: "a UUID",
      }),
    ),
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

const keyFields = {
  id: Id,
  name: nullable(Type.String()),
  prefix: Type.String({ description: "The first characters of the key, to tell keys apart." }),
  models: nullable(Type.Array(Type.String(), { description: "The models the key may use; null: all." })),
  expires_at: nullable(Time),
  created_at: Time,
}

export const KeyBody = Type.Object({
  ...keyFields,
  revoked_at: nullable(Time),
  last_used_at: nullable(Time),
})
export type KeyBody = Static<typeof KeyBody>

export const CreatedKeyBody = Type.Object({
  ...keyFields,
  key: Type.String({ description: "The key itself, shown this once." }),
})
export type CreatedKeyBody = Static<typeof CreatedKeyBody>

export const NewKey = Type.Object(
  {
    name: Type.Optional(line(200, "What people call the key.")),
    models: Type.Optional(
      Type.Array(line(256, "A model's name."), {
        minItems: 1,
        maxItems: 256,
        description: "The only models the key may use, also ones that are not configured yet.",
        [EXPECTED]: "an array of 1 to 256 model names",
      }),
    ),
    expires_at: Type.Optional(
      Type.String({ description: "When the key stops, as an RFC 3339 time.", [EXPECTED]: EXPIRY }),
    ),
  },
  closed,
)
/** A key to make, read from its body. */
export interface NewKey {
  readonly name: string | null
  readonly models: readonly string[] | null
  readonly expires_at: Date | null
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
  prices: Type.Object({ input: Price, cached_input: Price, output: Price }),
  started_at: Time,
  settled_at: nullable(Time),
  ttft_ms: nullable(Count),
  duration_ms: nullable(Count),
})
export type CallBody = Static<typeof CallBody>

export const AuditBody = Type.Object({
  checked_at: Time,
  accounts: Count,
  open_reservations: Count,
  violations: Type.Array(
    Type.Object({
      account_id: Id,
      kind: word(["balance", "held"]),
      recorded: nullable(Money),
      expected: Money,
    }),
    { description: "`recorded` is null when the journal has lines of an account that does not exist." },
  ),
})
export type AuditBody = Static<typeof AuditBody>

const newAccount = TypeCompiler.Compile(NewAccount)
const newCredit = TypeCompiler.Compile(NewCredit)
const newKey = TypeCompiler.Compile(NewKey)

/** Reads the body of a new account; throws `invalid_request` with the field at fault. */
export function parseNewAccount(body: object): NewAccount {
  if (!newAccount.Check(body)) throw invalidBody(NewAccount, body)
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
  const { name = null, models = null } = body
  if (body.expires_at === undefined) return { name, models, expires_at: null }
  const expires_at = parseTime(body.expires_at)
  if (expires_at === null || expires_at.getTime() <= now_ms) throw invalid("expires_at", EXPIRY)
  return { name, models, expires_at }
}

function invalid(param: string, expected: string): GatewayError {
  return new GatewayError("invalid_request", { message: `\`${param}\`: expected ${expected}.`, param })
}

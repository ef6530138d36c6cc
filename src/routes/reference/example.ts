import type { Static, TSchema } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"

/** Example records, generated from their schemas. */

export const EXAMPLE_ACCOUNT = "019f8b1c-0000-7000-8b7a-5d1f3c9e2a40"
export const EXAMPLE_ID = "019f8b1c-6a2e-7000-9c41-2f6d0e5b7a13"
const TIME = "2026-11-21T09:30:00.000Z"
const HASH = "9f2c1b7e04d85a36c1f0e9b8a7d6c5b4a3928170f6e5d4c3b2a1908f7e6d5c4b"

/** Values by field name. The first that fits the schema is used. Any other field is null if its schema allows it. */
const VALUES: Readonly<Record<string, readonly unknown[]>> = {
  id: [EXAMPLE_ID],
  account_id: [EXAMPLE_ACCOUNT],
  key_id: ["019f8b1c-2222-7000-9d4e-1a6b8c0f7e32"],
  name: ["Acme"],
  account_name: ["Acme"],
  key_name: ["production"],
  balance: ["9.9871"],
  held: ["0.016405"],
  available: ["9.970695"],
  price_multiplier: ["1"],
  amount: ["10"],
  left: ["6.783595"],
  limit: ["10"],
  selector: ["group"],
  selected: ["acme/search"],
  per: ["month"],
  timezone: ["Europe/Berlin"],
  thresholds: [[80, 100]],
  resets_at: ["2026-11-30T23:00:00.000Z"],
  kind: ["payment"],
  priority: [50],
  reason: ["Invoice 2026-118"],
  required_tags: [[]],
  until: ["2028-01-01T00:00:00.000Z"],
  spending_limit: [{ amount: "25", per: "day" }],
  spent: ["3.2"],
  prefix: ["tg_live_8Fq2"],
  key: ["tg_live_8Fq2…"],
  models: [["gpt-5-mini"]],
  model: ["gpt-5-mini"],
  upstream: ["openai"],
  stream: [true],
  group: ["acme/search"],
  by: ["day", "model"],
  state: ["settled", "active", "ready", "scheduled"],
  ending: ["completed"],
  notes: [[]],
  charge: ["0.00031"],
  overage: ["0"],
  usage: [{ prompt_tokens: 40, cached_tokens: 0, completion_tokens: 150 }],
  cost: ["0.00031"],
  released: ["0.016095"],
  calls: [1],
  credits: [1],
  credited: ["10"],
  charged: ["0.00031"],
  closing: ["9.99969"],
  prompt_tokens: [40],
  completion_tokens: [150],
  unread: [[]],
  attempts: [[], 31],
  provider_request_id: ["req_7f3a9c1e"],
  input: ["0.25"],
  cached_input: ["0.025"],
  output: ["2", -71.5],
  prompt: [0],
  output_tokens: [520],
  output_bytes: [592],
  reasoning_tokens: [360],
  bytes_per_token: [3.7],
  prompt_bytes_per_token: [4],
  hidden_output: [900],
  suggestion: ["Set estimate: { hidden_output: 900 }."],
  recorded: ["9.9871"],
  expected: ["9.987"],
  lines: [
    [
      { kind: "input", count: 40, price: "0.25", cost: "0.00001" },
      { kind: "output", count: 150, price: "2", cost: "0.0003" },
    ],
  ],
  checked_at: ["2026-11-21T09:40:00.000Z"],
  settled_at: ["2026-11-21T09:30:02.417Z"],
  ttft_ms: [380],
  duration_ms: [2417],
  url: ["https://billing.example.com/tollgate"],
  secret: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="],
  skipped: [[]],
  lag_seconds: [0],
  actor: ["Ann"],
  set_by: ["Ann"],
  token: ["tgo_8Fq2…"],
  days: [7],
  accounts: [3],
  open_holds: [12],
  hash: [HASH],
  month: ["2026-11"],
  to: ["2026-11-21T09:32:00.000Z"],
}

/** Values by format or type, for names without a value. */
const USUAL: Readonly<Record<string, unknown>> = {
  uuid: EXAMPLE_ID,
  "date-time": TIME,
  date: "2026-11-21",
  string: "text",
  integer: 0,
  number: 0,
  boolean: false,
  object: {},
}

/** An example record of this schema with `changes`. Optional fields are left out unless `changes` has them. */
export function exampleOf<S extends TSchema>(schema: S, changes: Partial<Static<S>> = {}): Static<S> {
  const { required = [] } = schema
  const values = Object.entries<TSchema>(schema.properties).flatMap(([name, field]) =>
    required.includes(name) ? [[name, exampleValue(name, field)]] : [],
  )
  const made = { ...Object.fromEntries(values), ...changes }
  if (Value.Check(schema, made)) return made
  throw new Error(`an example does not fit its schema: ${Value.Errors(schema, made).First()?.path}`)
}

function exampleValue(name: string, schema: TSchema): unknown {
  const alternatives: readonly TSchema[] = schema.anyOf ?? [schema]
  const fits = (value: unknown) =>
    alternatives.some((one) => (one.enum?.includes(value) ?? true) && Value.Check(one, value))
  const [given = VALUES[name]?.find(fits)] = [schema, ...alternatives].flatMap(
    ({ examples = [] }) => examples,
  )
  if (given !== undefined) return given
  if (fits(null)) return null
  const [first = schema] = alternatives
  if (first.type === "array") return [exampleValue(name, first.items)]
  if (first.properties !== undefined) return exampleOf(first)
  const [word = first.const] = first.enum ?? []
  return word ?? first.minimum ?? (first.pattern === undefined ? USUAL[first.format ?? first.type] : "0")
}

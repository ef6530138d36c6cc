import { type Static, Type } from "@sinclair/typebox"
import { feeBuckets, recordOf, tokenBuckets, unitOf } from "../kinds.ts"
import { type OperationName, operationNames } from "../wire/call.ts"
import { EXPECTED } from "../wire/fault.ts"
import { Family, UpstreamSection } from "./file-upstream.ts"
import {
  count,
  duration,
  durationOrNone,
  memorySize,
  modelName,
  proxy,
  section,
  size,
  text,
} from "./schema.ts"

/**
 * The schema of the configuration file, with the defaults of all optional keys. Unknown keys are errors.
 */

/** The number of processes that the connections of one embedded Postgres are enough for. */
export const MAX_WORKERS = 16

/** First path segments of the gateway's own routes, which cannot be vendor names. */
const ROUTES = [
  "admin",
  "chat",
  "console",
  "docs",
  "embeddings",
  "livez",
  "metrics",
  "models",
  "readyz",
  "v1",
]

export const PRICE_EXPECTED =
  'USD per 1M tokens as a quoted decimal with at most six decimals, such as "0.25" (an unquoted number is not exact)'

const Operation = Type.Unsafe<OperationName>(
  Type.Union(
    operationNames.map((name) => Type.Literal(name)),
    { [EXPECTED]: operationNames.join(", ") },
  ),
)

/** An upstream of a model. */
const Way = section({
  use: text(),
  model: Type.Optional(modelName()),
  priority: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 1_000, [EXPECTED]: "an integer from 0 to 1000" }),
  ),
  weight: Type.Optional(count({ maximum: 1_000 })),
})

/** The most tools of a provider with a price. */
const MAX_TOOLS = 32

const Model = section({
  name: modelName(),
  family: Family,
  operations: Type.Optional(
    Type.Array(Operation, {
      minItems: 1,
      uniqueItems: true,
      [EXPECTED]: "a list of at least one operation, such as [embeddings]",
    }),
  ),
  upstreams: Type.Array(Way, {
    minItems: 1,
    [EXPECTED]: "a list of at least one upstream, such as [{ use: openai }]",
  }),
  price: Type.Optional(
    Type.Object(
      {
        ...tokenPrices(),
        per_call: Type.Optional(amount()),
        ...recordOf(feeBuckets, (bucket) => Type.Optional(fee(unitOf(bucket)))),
        tool_run: Type.Optional(
          Type.Record(Type.String({ pattern: "^[A-Za-z0-9_.-]{1,64}$" }), fee("run"), {
            additionalProperties: false,
            maxProperties: MAX_TOOLS,
            [EXPECTED]: `a mapping from at most ${MAX_TOOLS} names of the provider's tools to USD each, such as { code_interpreter: "0.03" }`,
          }),
        ),
        tiers: tiers(),
        service_tiers: Type.Optional(
          Type.Record(
            Type.String({ pattern: "^(?!(?:auto|default)$)[a-z][a-z0-9_-]{0,31}$" }),
            section({ ...tokenPrices(), tiers: tiers() }),
            {
              additionalProperties: false,
              [EXPECTED]:
                'a mapping from service tiers other than auto and default, such as { flex: { input: "0.60", output: "5.00" } }',
            },
          ),
        ),
      },
      { additionalProperties: false, [EXPECTED]: "a mapping of prices" },
    ),
  ),
  /** States explicitly that the model is free (D44). */
  free: Type.Optional(Type.Literal(true, { [EXPECTED]: "true, or no such key" })),
  max_output_tokens: Type.Optional(count({ maximum: 10_000_000 })),
  hold_output_tokens: Type.Optional(count({ maximum: 10_000_000 })),
  part_tokens: Type.Optional(count({ maximum: 10_000_000 })),
  context_tokens: Type.Optional(count({ maximum: 100_000_000 })),
  open: section({
    hold_rounds: count({ maximum: 100, default: 1 }),
    max_rounds: count({ maximum: 100, default: 32 }),
  }),
  refuse: Type.Array(text({ [EXPECTED]: "a field, or field=value" }), {
    default: [],
    [EXPECTED]: "a list such as [mcp_servers, service_tier=flex]",
  }),
  set: Type.Record(Type.String(), Type.Unknown(), {
    default: {},
    [EXPECTED]: "a mapping from fields to values, such as { store: false }",
  }),
  hold: Type.Union([Type.Literal("worst"), Type.Literal("likely")], {
    default: "worst",
    [EXPECTED]: "worst or likely",
  }),
  hold_searches: count({ maximum: 1_000, default: 10 }),
  bytes_per_token: Type.Number({
    minimum: 0.5,
    maximum: 100,
    default: 4,
    [EXPECTED]: "a number from 0.5 to 100",
  }),
  estimate: section({
    prompt: Type.Union([Type.Literal("never"), Type.Literal("client_cut"), Type.Literal("always")], {
      default: "client_cut",
      [EXPECTED]: "never, client_cut or always",
    }),
    hidden_output: Type.Optional(count({ maximum: 10_000_000 })),
  }),
})

const Shard = section({
  name: text({
    pattern: "^[a-z][a-z0-9-]{0,31}$",
    [EXPECTED]: "a name of up to 32 characters (a-z, 0-9, -) that starts with a letter",
  }),
  url: text(),
  schema: text({
    pattern: "^(?!pg_|(?:public|information_schema|drizzle)$)[a-z_][a-z0-9_]{0,62}$",
    default: "tollgate",
    [EXPECTED]:
      "a name of up to 63 characters (a-z, 0-9, _) that does not start with a digit or pg_, and is not public, information_schema or drizzle",
  }),
  open: Type.Boolean({ default: true, [EXPECTED]: "true or false" }),
})

export const ConfigFile = section({
  vendors: Type.Array(
    text({
      pattern: `^(?!(?:${ROUTES.join("|")})$)[a-z][a-z0-9-]{0,31}$`,
      [EXPECTED]: `a name of up to 32 characters (a-z, 0-9, -) that starts with a letter and is not reserved (${ROUTES.join(", ")})`,
    }),
    { uniqueItems: true, default: ["anthropic"], [EXPECTED]: "a list of unique vendor names" },
  ),
  /** Of all upstreams without one of their own. */
  proxy: Type.Optional(proxy()),
  upstreams: Type.Record(Type.String({ pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" }), UpstreamSection, {
    additionalProperties: false,
    default: {},
    [EXPECTED]: "a mapping from names to upstreams",
  }),
  models: Type.Array(Model, { default: [], [EXPECTED]: "a list of models" }),
  stream: section({
    keepalive: duration("15s"),
    commit_after: durationOrNone("50ms"),
    stall: duration("30s"),
    finish_wait: durationOrNone("2s"),
    leave_wait: durationOrNone("500ms"),
  }),
  limits: section({
    body: size("20MiB"),
    body_timeout: duration("30s"),
    response: size("32MiB"),
    response_read: size("256MiB"),
    event: size("8MiB"),
    memory: Type.Optional(memorySize()),
    /** Bun makes at most 65,535 requests at a time and silently queues the rest. */
    in_flight: count({ maximum: 60_000, default: 10_000 }),
    per_key: section({
      in_flight: Type.Optional(count({ maximum: 60_000 })),
      requests_per_minute: Type.Optional(count({ maximum: 10_000_000 })),
      abandoned_per_minute: Type.Optional(count({ maximum: 10_000_000 })),
    }),
  }),
  admin: Type.Optional(
    Type.Object(
      {
        host: text({
          pattern: "^[A-Za-z0-9.:_-]+$",
          default: "127.0.0.1",
          [EXPECTED]: "a host name or an IP address",
        }),
        port: Type.Integer({ minimum: 0, maximum: 65_535, [EXPECTED]: "an integer from 0 to 65535" }),
        open_metrics: Type.Boolean({ default: false, [EXPECTED]: "true or false" }),
      },
      { additionalProperties: false, [EXPECTED]: "a mapping of host and port" },
    ),
  ),
  cors: section({
    origins: Type.Array(text(), {
      uniqueItems: true,
      default: [],
      [EXPECTED]: "a list of unique origins",
    }),
  }),
  receipts: section({ show_margin: Type.Boolean({ default: false, [EXPECTED]: "true or false" }) }),
  idempotency: section({ keep_answers: Type.Optional(duration()) }),
  journal: section({
    keep: Type.Optional(
      text({
        pattern: "^(?:1 month|(?:[2-9]|[1-9]\\d{1,2}) months)$",
        [EXPECTED]: "a number of months, such as 24 months",
      }),
    ),
  }),
  lease: section({ renew: duration("5s"), expire: duration("20s") }),
  shutdown: section({ ready_delay: durationOrNone("0s"), drain: durationOrNone("10m") }),
  shards: Type.Optional(
    Type.Array(Shard, {
      minItems: 1,
      [EXPECTED]: "a list of at least one shard, each with a name and a url",
    }),
  ),
  workers: count({ maximum: MAX_WORKERS, default: 1 }),
})
export type ConfigFile = Static<typeof ConfigFile>

/** Matches what `parsePrice` accepts. */
function price() {
  return text({ pattern: "^\\d{1,6}(?:\\.\\d{1,6})?$", [EXPECTED]: PRICE_EXPECTED })
}

/** Prices of tokens alone: of larger prompts, or of a service tier. */
function tokenPrices() {
  return {
    input: price(),
    cached_input: Type.Optional(price()),
    output: Type.Optional(price()),
    ...recordOf(tokenBuckets, () => Type.Optional(price())),
  }
}

/** Prices of larger prompts (D62). */
function tiers() {
  return Type.Optional(
    Type.Array(section({ above: count({ maximum: 100_000_000 }), ...tokenPrices() }), {
      [EXPECTED]: 'a list such as [{ above: 272000, input: "5.00", output: "15.00" }]',
    }),
  )
}

/** Matches what `parseFee` accepts. */
function fee(unit: string) {
  return text({
    pattern: "^\\d{1,6}(?:\\.\\d{1,9})?$",
    [EXPECTED]: `USD for each ${unit} as a quoted decimal with at most nine decimals, such as "0.01" (an unquoted number is not exact)`,
  })
}

/** Matches what `parseUsd` accepts, without a sign. */
function amount() {
  return text({
    pattern: "^\\d{1,9}(?:\\.\\d{1,9})?$",
    [EXPECTED]:
      'USD as a quoted decimal with at most nine decimals, such as "0.002" (an unquoted number is not exact)',
  })
}

import { type Static, Type } from "@sinclair/typebox"
import { feeBuckets, recordOf, tokenBuckets, unitOf } from "../kinds.ts"
import { operationNames } from "../wire/call.ts"
import { EXPECTED } from "../wire/fault.ts"
import { TAG_NAME } from "../wire/labels.ts"
import { Family, UpstreamSection } from "./file-upstream.ts"
import {
  count,
  duration,
  durationOrNone,
  flag,
  memorySize,
  modelName,
  oneOf,
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

/** An upstream of a model. */
const Way = section({
  use: text(),
  model: Type.Optional(modelName()),
  priority: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 1_000, [EXPECTED]: "an integer from 0 to 1000" }),
  ),
  weight: Type.Optional(count({ maximum: 1_000 })),
})

/** The most names of tags, because a client may combine them (D94). */
const MAX_DECLARED_TAGS = 16

/** The most tools of a provider with a price. */
const MAX_TOOLS = 32

/** The part of a model's configuration that is as the file has it. */
export const ModelSettings = section({
  /** The name that clients send; matched byte for byte (D19). */
  name: modelName(),
  family: Family,
  /** Tokens held for a picture, and at least for a sound or a file; null: its pixels say, and else 4,096 (D12). */
  part_tokens: Type.Optional(count({ maximum: 10_000_000 })),
  /** The most tokens a prompt can have; null when it is not known (D12). */
  context_tokens: Type.Optional(count({ maximum: 100_000_000 })),
  /** The number of contexts that an open prompt holds, and that are plausible (D89). */
  open: section({
    hold_rounds: count({ maximum: 100, default: 1 }),
    max_rounds: count({ maximum: 100, default: 32 }),
  }),
  /** Fields that every request gets, by their paths. */
  set: Type.Record(Type.String(), Type.Unknown(), {
    default: {},
    [EXPECTED]: "a mapping from fields to values, such as { store: false }",
  }),
  /** The caution of a hold: a token for each byte of the prompt's text, or for two (D68). */
  hold: oneOf(["worst", "likely"], { default: "worst" }),
  /** Searches held for a call that asks for them, if the price names them (D60). */
  hold_searches: count({ maximum: 1_000, default: 10 }),
  /** Bytes of output per estimated token (D6). */
  bytes_per_token: Type.Number({
    minimum: 0.5,
    maximum: 100,
    default: 4,
    [EXPECTED]: "a number from 0.5 to 100",
  }),
  estimate: section({
    /** The condition under which an estimate charges the prompt too (D6): `client_cut` is for a stream that its client left or let stall. */
    prompt: oneOf(["never", "client_cut", "always"], { default: "client_cut" }),
    /** Tokens that an estimate adds for unseen reasoning where a client cut its stream after output. */
    hidden_output: Type.Optional(count({ maximum: 10_000_000 })),
  }),
})

const Model = section({
  ...ModelSettings.properties,
  operations: Type.Optional(
    Type.Array(oneOf(operationNames, { [EXPECTED]: operationNames.join(", ") }), {
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
  refuse: Type.Array(text({ [EXPECTED]: "a field, or field=value" }), {
    default: [],
    [EXPECTED]: "a list such as [mcp_servers, service_tier=flex]",
  }),
})

/** A database that keeps a part of the accounts (D74). */
export const Shard = section({
  /** In the log, and in the path of its spool. */
  name: text({
    pattern: "^[a-z][a-z0-9-]{0,31}$",
    [EXPECTED]: "a name of up to 32 characters (a-z, 0-9, -) that starts with a letter",
  }),
  /** With its password: for no log. */
  url: text(),
  schema: text({
    pattern: "^(?!pg_|(?:public|information_schema|drizzle)$)[a-z_][a-z0-9_]{0,62}$",
    default: "tollgate",
    [EXPECTED]:
      "a name of up to 63 characters (a-z, 0-9, _) that does not start with a digit or pg_, and is not public, information_schema or drizzle",
  }),
  /** True if accounts are created in it. */
  open: Type.Boolean({ default: true, [EXPECTED]: "true or false" }),
})

/** The part of the configuration that is as the file has it. */
export const Settings = section({
  /** The names of the tags that clients may send (D94). */
  tags: Type.Array(
    text({
      pattern: TAG_NAME,
      [EXPECTED]: "a name of up to 64 characters (a-z, 0-9, _, ., -) that starts with a letter",
    }),
    {
      uniqueItems: true,
      maxItems: MAX_DECLARED_TAGS,
      default: [],
      [EXPECTED]: `a list of at most ${MAX_DECLARED_TAGS} unique names`,
    },
  ),
  stream: section({
    keepalive: duration("15s"),
    commit_after: durationOrNone("50ms"),
    stall: duration("30s"),
    /** Time for which a finished answer whose client is gone is read on for its usage (D9). */
    finish_wait: durationOrNone("2s"),
    /** Time for which any other answer whose client is gone is read on, where nothing is hidden from clients (D9). */
    leave_wait: durationOrNone("500ms"),
  }),
  limits: section({
    body: size("20MiB"),
    body_timeout: duration("30s"),
    /** Of a provider's JSON answer that is delivered. */
    response: size("32MiB"),
    /** So much of a larger one is read for its usage (D5). */
    response_read: size("256MiB"),
    event: size("8MiB"),
    /** For bodies and answers of one process (D77); null for a part of the machine's memory. */
    memory: Type.Optional(memorySize()),
    /** Bun makes at most 65,535 requests at a time and silently queues the rest. */
    in_flight: count({ maximum: 60_000, default: 10_000 }),
    /** Limits of one key in one process (D38); null for no limit. */
    per_key: section({
      in_flight: Type.Optional(count({ maximum: 60_000 })),
      requests_per_minute: Type.Optional(count({ maximum: 10_000_000 })),
      abandoned_per_minute: Type.Optional(count({ maximum: 10_000_000 })),
    }),
  }),
  /** The separate listener for operators (D39); null if they share the public one. Read at the start only. */
  admin: Type.Optional(
    Type.Object(
      {
        host: text({
          pattern: "^[A-Za-z0-9.:_-]+$",
          default: "127.0.0.1",
          [EXPECTED]: "a host name or an IP address",
        }),
        port: Type.Integer({ minimum: 0, maximum: 65_535, [EXPECTED]: "an integer from 0 to 65535" }),
        /** No token for `/metrics` there. */
        open_metrics: flag(),
      },
      { additionalProperties: false, [EXPECTED]: "a mapping of host and port" },
    ),
  ),
  /** Origins whose pages can call the API from a browser (D40). */
  cors: section({
    origins: Type.Array(text(), { uniqueItems: true, default: [], [EXPECTED]: "a list of unique origins" }),
  }),
  /** True if clients see the price multiplier of their account, and the prices without it (D69). `show_margin` is its name in version 0.2. */
  receipts: section({ show_price_multiplier: flag(), show_margin: flag() }),
  /** Time for which JSON responses are stored for replay under their `Idempotency-Key` (D43); null for not stored. */
  idempotency: section({ keep_answers: Type.Optional(duration()) }),
  lease: section({ renew: duration("5s"), expire: duration("20s") }),
  shutdown: section({ ready_delay: durationOrNone("0s"), drain: durationOrNone("10m") }),
  /** The number of processes that share the port; 1 means no worker processes. */
  workers: count({ maximum: MAX_WORKERS, default: 1 }),
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
  ...Settings.properties,
  journal: section({
    keep: Type.Optional(
      text({
        pattern: "^(?:1 month|(?:[2-9]|[1-9]\\d{1,2}) months)$",
        [EXPECTED]: "a number of months, such as 24 months",
      }),
    ),
  }),
  shards: Type.Optional(
    Type.Array(Shard, {
      minItems: 1,
      [EXPECTED]: "a list of at least one shard, each with a name and a url",
    }),
  ),
})
export type ConfigFile = Static<typeof ConfigFile>
export type FileModel = ConfigFile["models"][number]
export type FileUpstream = ConfigFile["upstreams"][string]

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

import { type Static, Type } from "@sinclair/typebox"
import { feeBuckets, recordOf, tokenBuckets, unitOf } from "../kinds.ts"
import { operationNames } from "../wire/call.ts"
import { EXPECTED } from "../wire/fault.ts"
import { TAG_NAME } from "../wire/labels.ts"
import { Family, UpstreamSection } from "./file-upstream.ts"
import { OidcSection } from "./oidc.ts"
import {
  count,
  duration,
  durationOrNone,
  flag,
  key,
  memorySize,
  modelName,
  oneOf,
  proxy,
  section,
  size,
  text,
} from "./schema.ts"

/** The schema of the configuration file, with the defaults of all optional keys. Unknown keys are errors. */

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

export const ADMIN_PORT = "an integer from 0 to 65535"

const Way = section({
  use: key("The name of an upstream.", text()),
  model: key("The upstream's name of the model. Default: `name`.", Type.Optional(modelName())),
  priority: key(
    "The lowest are tried first. Default: 0, and with it the order of the list (D82).",
    Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000, [EXPECTED]: "an integer from 0 to 1000" })),
  ),
  weight: key(
    "The share of the calls among equal priorities. Default: 1.",
    Type.Optional(count({ maximum: 1_000 })),
  ),
})

/** The most names of tags, because a client may combine them (D94). */
const MAX_DECLARED_TAGS = 16

const MAX_TOOLS = 32

export const ModelSettings = section({
  name: key("The name that clients send, matched byte for byte. Unique within a family (D19).", modelName()),
  family: key("The form of the API that clients call.", Family),
  part_tokens: key(
    "Tokens held for a picture, and at least for a sound or a file. Default: by its pixels, at least 4096 (D12).",
    Type.Optional(count({ maximum: 10_000_000 })),
  ),
  context_tokens: key(
    "The most tokens that a prompt can have. PDFs and open prompts hold it. Default: not known, so both are refused (D12).",
    Type.Optional(count({ maximum: 100_000_000 })),
  ),
  /** The number of contexts that an open prompt holds, and that are plausible (D89). */
  open: section({
    hold_rounds: key(
      "Contexts that a prompt with the provider's tools holds (D89).",
      count({ maximum: 100, default: 1 }),
    ),
    max_rounds: key("Contexts that it can be charged.", count({ maximum: 100, default: 32 })),
  }),
  set: key(
    "Fields that every call gets, by their paths; see Fields of requests (D61).",
    Type.Record(Type.String(), Type.Unknown(), {
      default: {},
      [EXPECTED]: "a mapping from fields to values, such as { store: false }",
    }),
  ),
  hold: key(
    "`worst` holds a token for each byte of the prompt, `likely` a token for two (D68).",
    oneOf(["worst", "likely"], { default: "worst" }),
  ),
  hold_searches: key(
    "Searches held for a call that asks for them, if the price names them (D60).",
    count({ maximum: 1_000, default: 10 }),
  ),
  bytes_per_token: key(
    "Bytes of output per estimated token (D6). `tollgate estimates` shows what fits.",
    Type.Number({
      minimum: 0.5,
      maximum: 100,
      default: 4,
      [EXPECTED]: "a number from 0.5 to 100",
    }),
  ),
  estimate: section({
    prompt: key(
      "When an estimate charges the prompt too (D6). `client_cut`: for a stream that its client left or let stall.",
      oneOf(["never", "client_cut", "always"], { default: "client_cut" }),
    ),
    hidden_output: key(
      "Tokens added for hidden reasoning when a client cuts a stream. Default: none.",
      Type.Optional(count({ maximum: 10_000_000 })),
    ),
  }),
})

const Model = section({
  ...ModelSettings.properties,
  operations: key(
    "Operations that clients can call (D63). Default: all of its family that its upstreams offer.",
    Type.Optional(
      Type.Array(oneOf(operationNames, { [EXPECTED]: operationNames.join(", ") }), {
        minItems: 1,
        uniqueItems: true,
        [EXPECTED]: "a list of at least one operation, such as [embeddings]",
      }),
    ),
  ),
  upstreams: Type.Array(Way, {
    minItems: 1,
    [EXPECTED]: "a list of at least one upstream, such as [{ use: openai }]",
  }),
  price: key(
    "USD per 1M tokens. `cached_input` defaults to `input`. [Billing](billing.md#prices-of-other-kinds-of-tokens) explains all kinds.",
    Type.Optional(
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
  ),
  free: key(
    "In place of a price (D44).",
    Type.Optional(Type.Literal(true, { [EXPECTED]: "true, or no such key" })),
  ),
  max_output_tokens: key(
    "No call holds more output than this. Required, unless the only operation is `embeddings`.",
    Type.Optional(count({ maximum: 10_000_000 })),
  ),
  hold_output_tokens: key(
    "Held when a call sets no limit. Default: `max_output_tokens`.",
    Type.Optional(count({ maximum: 10_000_000 })),
  ),
  unlimited_thinking: key(
    "`true` if `max_tokens` does not bound the thinking, so that each call holds `max_output_tokens` unless it has `enable_thinking: false` or a `thinking_budget` (D12). Default: `true` with an upstream of DashScope.",
    Type.Optional(Type.Boolean({ [EXPECTED]: "true or false" })),
  ),
  refuse: key(
    "Fields that calls may not have; see Fields of requests (D61).",
    Type.Array(text({ [EXPECTED]: "a field, or field=value" }), {
      default: [],
      [EXPECTED]: "a list such as [mcp_servers, service_tier=flex]",
    }),
  ),
})

/** A database that keeps a part of the accounts (D74). */
export const Shard = section({
  name: key(
    "In the log and in the path of its spool. Call the first one `main` if it was `DATABASE_URL` before: its spool then stays where it is.",
    text({
      pattern: "^[a-z][a-z0-9-]{0,31}$",
      [EXPECTED]: "a name of up to 32 characters (a-z, 0-9, -) that starts with a letter",
    }),
  ),
  url: key(
    "As `DATABASE_URL`, which must be unset. Keep it in the environment or in a file; see References.",
    text(),
  ),
  schema: key(
    "The schema of its tables.",
    text({
      pattern: "^(?!pg_|(?:public|information_schema|drizzle)$)[a-z_][a-z0-9_]{0,62}$",
      default: "tollgate",
      [EXPECTED]:
        "a name of up to 63 characters (a-z, 0-9, _) that does not start with a digit or pg_, and is not public, information_schema or drizzle",
    }),
  ),
  open: key(
    "New accounts are created in it. They are spread evenly over the open shards.",
    Type.Boolean({ default: true, [EXPECTED]: "true or false" }),
  ),
})

export const Settings = section({
  tags: key(
    "Names of the tags that clients may send in `x-tollgate-tags` (D94).",
    Type.Array(
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
  ),
  stream: section({
    keepalive: key("Sends a comment after this much silence.", duration("15s")),
    commit_after: key(
      "Sends a comment, and with it the headers, if nothing else was sent by then (D36).",
      durationOrNone("50ms"),
    ),
    stall: key(
      "Cuts the connection of a client that reads nothing for this long, and charges.",
      duration("30s"),
    ),
    finish_wait: key(
      "After the client disconnected: how long to wait for the usage of a finished stream (D9).",
      durationOrNone("2s"),
    ),
    leave_wait: key(
      "How long to read on any other stream whose client left, with `on_disconnect: auto` (D9).",
      durationOrNone("500ms"),
    ),
  }),
  limits: section({
    body: key("The body of a request.", size("20MiB")),
    body_timeout: key("For the body of a request.", duration("30s")),
    response: key("A provider's JSON answer that is delivered.", size("32MiB")),
    response_read: key("A larger one is read up to this size, for its usage (D5).", size("256MiB")),
    event: key("One event of a provider's stream.", size("8MiB")),
    memory: key(
      "Per process, for bodies and answers (D77). Default: a quarter of the memory of the cgroup or machine; at least four times `body`.",
      Type.Optional(memorySize()),
    ),
    in_flight: key(
      "Model calls of one process; more of them get 503.",
      count({ maximum: 60_000, default: 10_000 }),
    ),
    /** Limits of one key in one process (D38); null for no limit. */
    per_key: section({
      in_flight: key(
        "Model calls and token counts of a key at a time; see Limits of a key (D38). Default: no limit.",
        Type.Optional(count({ maximum: 60_000 })),
      ),
      requests_per_minute: key(
        "Calls, token counts and model lists of a key. Default: no limit.",
        Type.Optional(count({ maximum: 10_000_000 })),
      ),
      abandoned_per_minute: key(
        "Calls of a key that are left before output. Default: no limit.",
        Type.Optional(count({ maximum: 10_000_000 })),
      ),
    }),
  }),
  /** The separate listener for operators (D39), if it has a port, and their sign-in (D103). Read at the start only. */
  admin: Type.Optional(
    Type.Object(
      {
        host: key(
          "Serves `/admin`, `/console` and `/metrics` here only (D39). Default without `admin`: at `HOST` and `PORT`.",
          text({
            pattern: "^[A-Za-z0-9.:_-]+$",
            default: "127.0.0.1",
            [EXPECTED]: "a host name or an IP address",
          }),
        ),
        port: key(
          "0 picks a free one. Required, unless there is only `oidc`.",
          Type.Optional(Type.Integer({ minimum: 0, maximum: 65_535, [EXPECTED]: ADMIN_PORT })),
        ),
        open_metrics: key("`/metrics` here needs no admin token.", flag()),
        oidc: Type.Optional(OidcSection),
      },
      { additionalProperties: false, [EXPECTED]: "a mapping of host and port" },
    ),
  ),
  cors: section({
    origins: key(
      "Origins of pages that may call from a browser (D40).",
      Type.Array(text(), { uniqueItems: true, default: [], [EXPECTED]: "a list of unique origins" }),
    ),
  }),
  receipts: section({
    show_price_multiplier: key(
      "Clients see the price multiplier of their account, and the prices without it (D69).",
      flag(),
    ),
    show_margin: key("The old name of `show_price_multiplier`. Version 2 does not accept it.", flag()),
  }),
  idempotency: section({
    keep_answers: key(
      "How long a JSON answer is returned again for the same `Idempotency-Key` (D43). Default: not kept.",
      Type.Optional(duration()),
    ),
  }),
  lease: section({
    renew: key("How often a gateway says that it lives (D35).", duration("5s")),
    expire: key("A gateway that has not renewed its lease for this long counts as dead.", duration("20s")),
  }),
  shutdown: section({
    ready_delay: key("How long new calls are still served after the signal (D34).", durationOrNone("0s")),
    drain: key("How long calls in progress may continue.", durationOrNone("10m")),
  }),
  workers: key(
    "Processes that share the port; 1 means no worker processes.",
    count({ maximum: MAX_WORKERS, default: 1 }),
  ),
})

export const ConfigFile = section({
  vendors: key(
    "For each one `/<vendor>/v1/messages` is served, and its header `<vendor>-version` is forwarded.",
    Type.Array(
      text({
        pattern: `^(?!(?:${ROUTES.join("|")})$)[a-z][a-z0-9-]{0,31}$`,
        [EXPECTED]: `a name of up to 32 characters (a-z, 0-9, -) that starts with a letter and is not reserved (${ROUTES.join(", ")})`,
      }),
      { uniqueItems: true, default: ["anthropic"], [EXPECTED]: "a list of unique vendor names" },
    ),
  ),
  proxy: key(
    "The proxy to all providers without one of their own; see Proxies. Default: `HTTPS_PROXY`, `HTTP_PROXY`.",
    Type.Optional(proxy()),
  ),
  upstreams: Type.Record(Type.String({ pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" }), UpstreamSection, {
    additionalProperties: false,
    default: {},
    [EXPECTED]: "a mapping from names to upstreams",
  }),
  models: Type.Array(Model, { default: [], [EXPECTED]: "a list of models" }),
  ...Settings.properties,
  journal: section({
    keep: key(
      "Detaches the entries of older months (D71). Default: they are kept.",
      Type.Optional(
        text({
          pattern: "^(?:1 month|(?:[2-9]|[1-9]\\d{1,2}) months)$",
          [EXPECTED]: "a number of months, such as 24 months",
        }),
      ),
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

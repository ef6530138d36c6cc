import { Type } from "@sinclair/typebox"
import { presetNames } from "../presets/presets.ts"
import { readerNames } from "../usage/readers.ts"
import { EXPECTED } from "../wire/fault.ts"
import { count, duration, durationOrNone, flag, key, oneOf, proxy, section, text } from "./schema.ts"

/** The schema of an upstream in the configuration file. */

export const Family = oneOf(["chat", "messages"])

const Auth = Type.Union(
  [
    Type.Literal("bearer"),
    Type.Literal("x-api-key"),
    Type.Literal("api-key"),
    Type.Object(
      { header: text({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$" }) },
      { additionalProperties: false },
    ),
  ],
  { [EXPECTED]: "bearer, x-api-key, api-key or { header: NAME }" },
)

/** Sent in a header, so it must be printable ASCII. */
function credential() {
  return text({ pattern: "^[\\x21-\\x7e]+$", [EXPECTED]: "printable ASCII without spaces" })
}

function texts(expected: string) {
  return Type.Record(Type.String(), text({ pattern: "^[\\t\\x20-\\x7e]*$", [EXPECTED]: "printable ASCII" }), {
    default: {},
    [EXPECTED]: expected,
  })
}

export const UpstreamSettings = section({
  timeouts: section({
    connect: key("TCP and TLS. Then the next upstream is tried (D31).", duration("3s")),
    first_byte: key("Of a stream: until the headers of the provider.", duration("120s")),
    idle: key("Of a stream: between two bytes.", duration("5m")),
    total: key("Of every call.", duration("30m")),
  }),
  idle_connection: key(
    "How long an unused connection is kept (D59). Default: 30s for https, 4s for http, or what the server says.",
    Type.Optional(duration()),
  ),
  pass_cost: key("Clients see the cost that the provider reports, such as `usage.cost` (D24).", flag()),
  /** The handling of the upstream request when the client disconnects (D9). */
  on_disconnect: section({
    stream: key(
      "What happens to a stream when its client disconnects (D9). `abort`: it is cancelled and charged by what was observed. `drain`: it is read to its end, for its usage. `auto`: `drain` if the charge depends on the usage (reasoning, searches, PDFs), else `abort` after `stream.leave_wait`.",
      oneOf(["auto", "abort", "drain"], { default: "auto" }),
    ),
    json: key("The same for a JSON call.", oneOf(["abort", "drain"], { default: "drain" })),
    drain_for: key("The most time for which a stream is read on.", durationOrNone("30s")),
  }),
})

/** Settings that a preset can fill in (D83) have no default here. */
export const UpstreamSection = section({
  ...UpstreamSettings.properties,
  provider: key(
    "A preset of [Providers](providers.md), which fills in what is not set here (D83). Default: by the host of `base_url`.",
    Type.Optional(oneOf(presetNames, { [EXPECTED]: `one of ${presetNames.join(", ")}` })),
  ),
  family: key("The form of its API. Default: that of the preset.", Type.Optional(Family)),
  base_url: key(
    "The address; `{model}` in it is replaced by the upstream's name of the model. Plain http is allowed for servers in your network.",
    Type.Optional(
      text({
        pattern: "^https?://[^\\s/?#@]+(?:/[^\\s?#@]*)?$",
        [EXPECTED]: "an http or https URL without credentials, query or fragment",
      }),
    ),
  ),
  api_key: key("The credential.", Type.Optional(credential())),
  usage: key(
    "How its usage is read: `default` for all common names (D87).",
    Type.Optional(oneOf(readerNames, { [EXPECTED]: `one of ${readerNames.join(", ")}` })),
  ),
  keys: Type.Optional(
    Type.Array(
      section({
        api_key: key("The credential: one of several in place of `api_key` (D82).", credential()),
        name: key(
          "A name for receipts, logs and metrics.",
          Type.Optional(text({ pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" })),
        ),
        weight: key("The share of the calls.", count({ maximum: 1_000, default: 1 })),
      }),
      { minItems: 1, [EXPECTED]: "a list of at least one key, such as [{ api_key: ... }]" },
    ),
  ),
  auth: key(
    "The header of the credential. Default: `bearer` for `chat`, `x-api-key` for `messages`.",
    Type.Optional(Auth),
  ),
  headers: key("Added to every request (D81).", texts("a mapping from lower-case header names to strings")),
  query: key(
    "Added to every address (D81).",
    texts("a mapping from parameters to strings, such as { api-version: 2024-10-21 }"),
  ),
  set: key(
    "Fields of the body that get a value, by dotted path.",
    Type.Record(Type.String(), Type.Unknown(), {
      default: {},
      [EXPECTED]: "a mapping from dotted fields to values, such as { provider.sort: price }",
    }),
  ),
  drop: key(
    "Fields of the body that are not sent, by dotted path.",
    Type.Optional(Type.Array(text(), { [EXPECTED]: "a list of dotted fields, such as [stream_options]" })),
  ),
  proxy: key("The proxy to this provider; see Proxies.", Type.Optional(proxy())),
  transport: key(
    "`direct`: the gateway's own client, the default without a proxy. `fetch`: that of the runtime, always used with a proxy (D59).",
    Type.Optional(oneOf(["direct", "fetch"])),
  ),
  tls: section({
    ca: key("PEM of the authorities that replace those of the system.", Type.Optional(text())),
    cert: key("PEM of the gateway's own certificate; with `key`.", Type.Optional(text())),
    key: key("PEM of its private key.", Type.Optional(text())),
  }),
})

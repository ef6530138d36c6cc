import { Type } from "@sinclair/typebox"
import { presetNames } from "../presets/presets.ts"
import { readerNames } from "../usage/readers.ts"
import { EXPECTED } from "../wire/fault.ts"
import { count, duration, durationOrNone, flag, oneOf, proxy, section, text } from "./schema.ts"

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

/** Strings by name. */
function texts(expected: string) {
  return Type.Record(Type.String(), text({ pattern: "^[\\t\\x20-\\x7e]*$", [EXPECTED]: "printable ASCII" }), {
    default: {},
    [EXPECTED]: expected,
  })
}

/** The part of the configuration that is as the file has it. */
export const UpstreamSettings = section({
  timeouts: section({
    /** For a connection, TLS included (D31). */
    connect: duration("3s"),
    first_byte: duration("120s"),
    idle: duration("5m"),
    total: duration("30m"),
  }),
  /** Time for which an idle connection is kept (D59); null for the default. */
  idle_connection: Type.Optional(duration()),
  /** True if clients see the provider's own cost of a call (D24). */
  pass_cost: flag(),
  /** The handling of the upstream request when the client disconnects (D9). */
  on_disconnect: section({
    /** `auto` drains where output may be hidden from clients, and otherwise aborts after `leave_wait`. */
    stream: oneOf(["auto", "abort", "drain"], { default: "auto" }),
    json: oneOf(["abort", "drain"], { default: "drain" }),
    drain_for: durationOrNone("30s"),
  }),
})

/** Settings that a preset can fill in (D83) have no default here. */
export const UpstreamSection = section({
  ...UpstreamSettings.properties,
  provider: Type.Optional(oneOf(presetNames, { [EXPECTED]: `one of ${presetNames.join(", ")}` })),
  family: Type.Optional(Family),
  /** Plain http is allowed, because a local model server rarely has a certificate. */
  base_url: Type.Optional(
    text({
      pattern: "^https?://[^\\s/?#@]+(?:/[^\\s?#@]*)?$",
      [EXPECTED]: "an http or https URL without credentials, query or fragment",
    }),
  ),
  api_key: Type.Optional(credential()),
  /** The reader of its usage (D87). */
  usage: Type.Optional(oneOf(readerNames, { [EXPECTED]: `one of ${readerNames.join(", ")}` })),
  keys: Type.Optional(
    Type.Array(
      section({
        api_key: credential(),
        name: Type.Optional(text({ pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" })),
        weight: count({ maximum: 1_000, default: 1 }),
      }),
      { minItems: 1, [EXPECTED]: "a list of at least one key, such as [{ api_key: ... }]" },
    ),
  ),
  auth: Type.Optional(Auth),
  headers: texts("a mapping from lower-case header names to strings"),
  query: texts("a mapping from parameters to strings, such as { api-version: 2024-10-21 }"),
  set: Type.Record(Type.String(), Type.Unknown(), {
    default: {},
    [EXPECTED]: "a mapping from dotted fields to values, such as { provider.sort: price }",
  }),
  drop: Type.Optional(
    Type.Array(text(), { [EXPECTED]: "a list of dotted fields, such as [stream_options]" }),
  ),
  proxy: Type.Optional(proxy()),
  transport: Type.Optional(oneOf(["direct", "fetch"])),
  tls: section({ ca: Type.Optional(text()), cert: Type.Optional(text()), key: Type.Optional(text()) }),
})

import type { ReaderName } from "../usage/readers.ts"
import type { OperationName } from "../wire/call.ts"

/** Settings of a provider (D83) that differ from the defaults. Comments name sources, read in November 2026. */
export interface Preset {
  /** The families that it offers. The first is the default of an upstream. */
  readonly chat?: Endpoint
  readonly messages?: Endpoint
  /** Hosts, with the beginning of the path if needed, that belong to this provider alone. `*` matches any text without a slash. */
  readonly hosts: readonly string[]
  readonly query?: Readonly<Record<string, string>>
  /** Fields that it refuses and that do not change an answer. */
  readonly drop?: readonly string[]
  readonly usage?: ReaderName
  /** `unasked`: it reports a stream's usage by itself, or refuses `stream_options`. Default: `asked`. */
  readonly stream_usage?: "asked" | "unasked"
  /** No limit of a request bounds the thinking of its models, some of which think unasked (D12). */
  readonly unlimited_thinking?: true
  /** Time for which it keeps an idle connection, less a second. Default: D59. */
  readonly idle_connection_ms?: number
  /** Default: the codes and messages of all providers. */
  readonly errors?: ErrorMeanings
}

export interface Endpoint {
  /** Scheme and host. With words in capitals it is an example, because only the operator knows the address. */
  readonly origin: string
  /** Follows the host of a `base_url` that has no path; null for a path that only the operator knows. */
  readonly path: string | null
  /** Default: that of the family, `bearer` for chat and `x-api-key` for messages. */
  readonly auth?: Auth
  /** A path, relative to the base URL, that `tollgate check` requests with the credential at no cost. Default: the list of models. */
  readonly probe?: string
  /** True if the list of models does not have the names that are called, such as names of deployments. */
  readonly unlisted?: true
  /** The operations of its models (D63). Default: every operation of the family. */
  readonly operations?: readonly OperationName[]
}

/** The header that has the credential (D81). */
export type Auth = "bearer" | "x-api-key" | "api-key" | { readonly header: string }

/** The meaning of a refusal: the operator's key or account, the rate or the capacity, or the content of the request. */
export type ErrorMeaning = "account" | "rate" | "content"

/** Codes, messages and statuses that give a refusal its meaning, where the usual meaning of the status does not (D82). */
export interface ErrorMeanings {
  /** Values of `code`, `type` or a reason for a refusal of the operator's key or account. */
  readonly account: ReadonlySet<string>
  /** Beginnings of messages for the same; the rest of a message may repeat a client's words. */
  readonly account_messages: readonly RegExp[]
  readonly statuses: Readonly<Record<number, ErrorMeaning>>
}

/** The meanings of a provider that names some of them. */
export function errors(
  account: readonly string[],
  account_messages: readonly RegExp[] = [],
  statuses: ErrorMeanings["statuses"] = {},
): ErrorMeanings {
  return { account: new Set(account), account_messages, statuses }
}

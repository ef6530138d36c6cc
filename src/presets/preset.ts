import type { ReaderName } from "../usage/readers.ts"
import type { OperationName } from "../wire/call.ts"

/**
 * What the gateway knows of a provider (D83): a value for each key of an upstream that differs from the default. Data only.
 * A comment at each value that is not in the vendor's first page says where it was read, in November 2026.
 */
export interface Preset {
  /** What it offers. The first family is that of an upstream which names none. */
  readonly chat?: Endpoint
  readonly messages?: Endpoint
  /** Host and beginning of the path of a `base_url` that can be nobody else's. `*` stands for any text without a slash. */
  readonly hosts: readonly string[]
  readonly query?: Readonly<Record<string, string>>
  /** Fields that it refuses although they change no answer. */
  readonly drop?: readonly string[]
  readonly usage?: ReaderName
  /**
   * `unasked`: it reports the usage of a stream by itself, or refuses to be asked, so `stream_options` is not sent. By
   * default it is asked.
   */
  readonly stream_usage?: "asked" | "unasked"
  /** How long it keeps an idle connection, less a second; by default as D59 says. */
  readonly idle_connection_ms?: number
  /** By default any words that a provider is known to use. */
  readonly errors?: ErrorMeanings
}

export interface Endpoint {
  /** Scheme and host. With words in capitals, it is an example: only the operator knows the address. */
  readonly origin: string
  /** Follows the host of a `base_url` that has no path; null for a path that only the operator knows. */
  readonly path: string | null
  /** By default that of the family: `bearer` for chat, `x-api-key` for messages. */
  readonly auth?: Auth
  /** What `tollgate check` gets with the credential, at no cost: relative to the base URL. By default the list of models. */
  readonly probe?: string
  /** Whether the list of models leaves out what is called: names of deployments. */
  readonly unlisted?: true
  /** What its models can be called for (D63). By default every operation of the family. */
  readonly operations?: readonly OperationName[]
}

/** Which header has the credential (D81). */
export type Auth = "bearer" | "x-api-key" | "api-key" | { readonly header: string }

/** What a refusal means: the operator's key or account, the rate or the capacity, or the content of the request. */
export type Meaning = "account" | "rate" | "content"

/** How a provider says what a refusal means, where its status does not (D82). */
export interface ErrorMeanings {
  /** A `code`, a `type` or a reason which says that the operator's key or account is refused. */
  readonly account: ReadonlySet<string>
  /** Beginnings of messages that say it: what follows may repeat a client's words. */
  readonly account_messages: readonly RegExp[]
  /** Statuses that mean something else here than elsewhere. */
  readonly statuses: Readonly<Record<number, Meaning>>
}

/** The meanings of a provider that names some of them. */
export function errors(
  account: readonly string[],
  account_messages: readonly RegExp[] = [],
  statuses: ErrorMeanings["statuses"] = {},
): ErrorMeanings {
  return { account: new Set(account), account_messages, statuses }
}

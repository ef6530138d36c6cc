import type { Family } from "../config/config.ts"
import type { GatewayError } from "../errors.ts"
import type { JsonForm } from "../meter/json-reading.ts"
import type { StreamForm } from "../meter/relay-options.ts"
import type { RefusalForm } from "../upstream/refusal.ts"
import type { AgentSession, OperationName } from "../wire/call.ts"
import type { FieldTexts } from "../wire/json.ts"
import type { JsonObject } from "../wire/usage.ts"

/** All that distinguishes one kind of call from another (D63). Hold, relay, failover and settlement are shared. */
export interface Operation {
  readonly name: OperationName
  readonly family: Family
  /** Below the `base_url` of an upstream: `/chat/completions`. */
  readonly path: string
  /** True if its answers have output tokens, which are held, limited and estimated. */
  readonly generates: boolean
  /** The field of a request that limits its output tokens, for the message of a 402 (D12); null where there are none. */
  readonly limit_field: string | null
  readonly json: JsonForm
  /** Null for an operation that is only answered with JSON. */
  readonly stream: EventForm | null
  readonly refusals: RefusalForm
}

/** An operation and how its requests are read. `Request` is a parsed body. */
export interface OperationOn<Request extends NamedModel> extends Operation {
  /** The API key of a request (D20), whose form may be wrong. Throws `invalid_api_key`. */
  credential(headers: Headers): string
  /** The forwarded headers and query. `vendor`: of the path (D21). Throws `invalid_request` or `not_found`. */
  passed(request: globalThis.Request, vendors: readonly string[], vendor: string | null): Passed | null
  /** Parses a JSON object as a request. Throws `invalid_request` with the path at fault. */
  parse(body: object): Request
  /** The fields that are measured and sent: all but those for the gateway. */
  texts(request: Request): FieldTexts
  /** The fields that are sent with another value, besides the model's name; absent: none. */
  changes?(request: Request): Readonly<Record<string, unknown>>
  streams(request: Request): boolean
  /** True if the client wants the usage of a stream (D24). */
  wantsUsage(request: Request): boolean
  /** True if the client wants the charge in the usage of the answer (D49). */
  wantsCost(request: Request): boolean
}

/** Every request names its model. */
export interface NamedModel {
  readonly model: string
}

/** The parts of a request that are forwarded besides its body. */
export interface Passed {
  readonly headers: Readonly<Record<string, string>>
  /** With its question mark; `""` for none. */
  readonly query: string
  /** Recorded with the hold and not sent (D65); null for none. */
  readonly session: AgentSession | null
}

/** The reading and framing of streams, and the end of a broken one. */
export interface EventForm extends StreamForm {
  /** For a stream in answer to a JSON call (D5). */
  assembly(): Assembly
  /** The last event of a stream that broke after output (D10). */
  errorEvent(error: GatewayError, request_id: string): Uint8Array
}

/** Makes the JSON answer from the events of a stream. It may keep and change their payloads. */
export interface Assembly {
  take(payload: JsonObject): void
  /** The answer so far; null before an event of it. */
  readonly answer: JsonObject | null
}

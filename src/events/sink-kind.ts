import type { EventBody } from "../wire/events.ts"
import type { OneOrMore } from "../wire/list.ts"
import type { SinkRequest } from "./post.ts"

/** A kind of sinks (D96): events as requests, and the meaning of answers. */
export interface SinkKindOf {
  /** In one request. */
  readonly most_events: number
  /** True if requests of one subject are sent one after another. */
  readonly in_turn?: boolean
  /** True if the sink gets the event; others are passed over. */
  is_for(event: EventBody): boolean
  /** Why an event is skipped that the sink would always refuse; null if it is not. Those of an account have one reason. */
  faultOf?(event: EventBody): string | null
  request(events: OneOrMore<EventBody>, sink: SinkTarget): SinkRequest
  /** True if the meaning of a refusal is in its body. */
  readonly reads: boolean
  /** The meaning of an answer that is no 2xx. */
  meaning(answer: { readonly status: number; readonly text: string }, sent: readonly EventBody[]): Meaning
  /** A sink that has failed for so long stops, if that is less than usual. */
  readonly give_up_ms?: number
}

/** `never`: the events themselves are refused; sent alone, one of them is. `again`: later. `gone`: the sink stops. */
export type Meaning = "taken" | "again" | "never" | "gone"

interface SinkTarget {
  readonly url: string
  /** The current one; during the rotation of a webhook's also the one before. */
  readonly secrets: OneOrMore<string>
  readonly meter: string | null
}

export const below = (url: string, path: string) => `${url.replace(/\/$/, "")}${path}`

export const bearer = ({ secrets: [token] }: SinkTarget) => ({ authorization: `Bearer ${token}` })

export const externalId = ({ source, subject }: EventBody) =>
  source === `/accounts/${subject}` ? null : subject

export const isCharge = ({ type }: EventBody) =>
  type === "tollgate.call.ended" || type === "tollgate.call.corrected"

/** A value without nulls, which meters refuse, at any depth. */
export function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.filter((one) => one !== null).map(withoutNulls)
  if (typeof value !== "object" || value === null) return value
  const kept = Object.entries(value).filter(([, one]) => one !== null)
  return Object.fromEntries(kept.map(([name, one]) => [name, withoutNulls(one)]))
}

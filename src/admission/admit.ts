import { Call } from "../call.ts"
import type { Config, Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import type { Books, Hold, Standing } from "../ledger/reservation.ts"
import type { ChatRequest } from "../wire/chat.ts"
import type { FieldTexts } from "../wire/field-texts.ts"
import type { Catalog } from "./catalog.ts"
import type { InFlight } from "./in-flight.ts"
import type { KeyLoads } from "./key-loads.ts"
import { quote, refusal } from "./quote.ts"

/** What admission asks of the house. */
export interface Admitting {
  readonly books: Books
  readonly catalog: Catalog
  readonly in_flight: InFlight
  readonly key_loads: KeyLoads
  readonly limits: Config["limits"]
  /** Whether any upstream of the model may be tried now (D33). */
  ready(model: Model): boolean
}

/** Turns a chat call away that would find no place, before a byte of its body is looked at (D33, D38). */
export function refuseEarly({ in_flight, key_loads, limits }: Admitting, key_hash: string): void {
  in_flight.check(limits.in_flight)
  key_loads.check(key_hash, limits.per_key)
}

/**
 * May this chat call run, and what must be held? Holds it and returns the call that owns the reservation.
 * Faults in the order of D30: key, model, balance; `overloaded`, `rate_limited` and `upstream_unavailable` come before any
 * hold (D33, D38).
 */
export async function admit(
  house: Admitting,
  id: string,
  key_hash: string,
  chat: ChatRequest,
  texts: FieldTexts,
): Promise<Call> {
  const { books, catalog, in_flight, key_loads, limits } = house
  const found = catalog.find(chat.model, "chat")
  if (found instanceof GatewayError) {
    await activeKey(house, key_hash)
    throw found
  }
  in_flight.check(limits.in_flight)
  const leaveKey = key_loads.enter(key_hash, limits.per_key)
  in_flight.enter(limits.in_flight)
  try {
    const owner = await books.owner(key_hash)
    if (owner === null) throw new GatewayError("invalid_api_key")
    if (!house.ready(found)) throw await whyRefused(house, key_hash, found, chat, texts)
    key_loads.count(key_hash, limits.per_key)
    const quoted = quote(chat, found, texts)
    const hold: Hold = {
      id,
      account_id: owner.account_id,
      key_id: owner.key_id,
      amount_nano: quoted.amount_nano,
      model: found.name,
      family: found.family,
      upstream: found.routes[0].upstream.name,
      stream: chat.stream === true,
      price: found.price,
    }
    const result = await books.reserve(hold)
    if (result.outcome === "insufficient_balance") throw refusal(quoted, found, result.available_nano)
    if (result.outcome === "model_not_allowed")
      throw new GatewayError("model_not_allowed", { param: "model" })
    if (result.outcome !== "held") throw new GatewayError(result.outcome)
    return new Call(hold, found, quoted.prompt_bytes, in_flight, leaveKey)
  } catch (error) {
    in_flight.refuse()
    leaveKey()
    throw error
  }
}

/** Why a call that no upstream would take is refused: first what a hold would have told of its key and its balance (D30). */
async function whyRefused(
  house: Admitting,
  key_hash: string,
  model: Model,
  chat: ChatRequest,
  texts: FieldTexts,
): Promise<GatewayError> {
  const standing = await activeKey(house, key_hash)
  checkModel(standing, model)
  const quoted = quote(chat, model, texts)
  return standing.available_nano < quoted.amount_nano
    ? refusal(quoted, model, standing.available_nano)
    : new GatewayError("upstream_unavailable")
}

/** Throws `model_not_allowed` when the key is limited to other models (D15). */
export function checkModel({ models }: Standing, { name }: Model): void {
  if (models === null || models.includes(name)) return
  throw new GatewayError("model_not_allowed", { param: "model" })
}

/**
 * The standing of a key that is neither unknown, revoked nor expired, read from the books (D26), for a request that holds
 * nothing; throws `rate_limited` when the key makes too many of them (D38).
 */
export async function activeKey(
  { books, key_loads, limits }: Pick<Admitting, "books" | "key_loads" | "limits">,
  key_hash: string,
): Promise<Standing> {
  key_loads.checkRate(key_hash, limits.per_key)
  const standing = await books.standing(key_hash)
  if (standing === null || !standing.active) throw new GatewayError("invalid_api_key")
  key_loads.count(key_hash, limits.per_key)
  return standing
}

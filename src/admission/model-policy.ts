import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { isFree } from "../money.ts"
import type { OperationName } from "../wire/call.ts"
import { NONE, TOOL_RUN } from "../wire/fields.ts"
import type { FieldTexts } from "../wire/json.ts"
import { isAtAny, valuesAt } from "../wire/paths.ts"
import { isWritten, type JsonObject } from "../wire/usage.ts"
import { describe } from "./describe.ts"
import { type Described, openingField, switchOf } from "./described.ts"

/**
 * Sets the operator's fields in `texts` (D61). Returns the error if something in the request is refused, or has no
 * price or no bound.
 */
export function applyModelPolicy(
  operation: OperationName,
  request: object,
  texts: FieldTexts,
  described: Described,
  model: Model,
  headers?: Readonly<Record<string, string>>,
): Described | GatewayError {
  const read = fieldsRead(request, model)
  const refused = model.refuse.find(({ path, value }) =>
    valuesAt(read, path)
      .flatMap((one) => (value === null ? [one] : one))
      .some((one) => (one ?? null) !== null && (value === null || isWritten(one, value))),
  )
  if (refused !== undefined)
    return refusal(
      refused.path,
      `the operator does not allow this for the model ${model.name}. Leave it out.`,
    )
  const names = Object.keys(model.set)
  if (names.length === 0) return unpriced(described, model) ?? described
  texts.set(model.set)
  const changed = describe(operation, texts, headers, names)
  texts.release()
  return unpriced(changed, model) ?? changed
}

/** The fields that the operator refuses something in. A large one is parsed each time that it is read, so it is read once. */
function fieldsRead(request: object, { refuse }: Model): JsonObject {
  if (refuse.length === 0) return {}
  const is_read = isAtAny(refuse.map(({ path }) => path))
  return Object.fromEntries(
    Object.keys(request)
      .filter(is_read)
      .map((name) => [name, Reflect.get(request, name)]),
  )
}

/**
 * The error for a request with something that has no price (D61) or no bound (D12, D89). A free model refuses nothing
 * (D44).
 */
function unpriced(described: Described, model: Model): GatewayError | null {
  const { switches, service_tier } = described
  const { name, context_tokens } = model
  if (switches.size === 0 || isFree(model.price)) return null
  for (const [switch_name, field] of switches) {
    const { price, what } = switchOf(switch_name)
    if (price === null || hasPrice(model, price, service_tier)) continue
    const cure =
      price === NONE ? "because Tollgate cannot charge for it" : "or ask the operator to set a price"
    return refusal(field, `the model ${name} has no price for ${what}. Leave it out, ${cure}.`, switch_name)
  }
  const opening = context_tokens === null ? openingField(described, model) : null
  if (opening === null) return null
  const why = `only the provider knows how many tokens this is, and the model ${name} has no context_tokens to hold for it.`
  return refusal(opening, `${why} Leave it out, or ask the operator to set context_tokens.`, "context_tokens")
}

function hasPrice({ price, tiers, service_tiers }: Model, needed: string, wanted: string | null): boolean {
  if (needed === NONE) return false
  if (needed === "tiers") return tiers.length > 0
  if (needed === "service_tiers") return service_tiers.some(({ name }) => name === wanted)
  if (needed.startsWith(TOOL_RUN)) return Object.hasOwn(price.tool_runs ?? {}, needed.slice(TOOL_RUN.length))
  return Object.hasOwn(price.buckets ?? {}, needed)
}

function refusal(param: string, why: string, missing?: string): GatewayError {
  const fields = missing === undefined ? {} : { fields: { missing } }
  return new GatewayError("invalid_request", { param, message: `${param}: ${why}`, ...fields })
}

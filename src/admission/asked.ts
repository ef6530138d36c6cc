import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { isFree } from "../money.ts"
import type { OperationName } from "../wire/call.ts"
import type { FieldTexts } from "../wire/json.ts"
import { valuesAt } from "../wire/paths.ts"
import { describe } from "./describe.ts"
import type { Described } from "./described.ts"
import { NONE, switchOf, TOOL_RUN } from "./switches.ts"

/** The first field that makes the provider add to the prompt; null for none (D89). */
export function openingField({ asks }: Described): string | null {
  for (const [ask, field] of asks) if (switchOf(ask).opens !== undefined) return field
  return null
}

/**
 * What a request asks of a model, with the fields that the operator sets (D61); the error if the operator refuses it, or if
 * something in it has no price or no bound. Changes `texts` where fields are set.
 */
export function askedOf(
  operation: OperationName,
  request: unknown,
  texts: FieldTexts,
  described: Described,
  model: Model,
  headers?: Readonly<Record<string, string>>,
): Described | GatewayError {
  const { refuse, set } = model
  const refused = refuse.length === 0 ? null : refusedByOperator(request, model)
  if (refused !== null) return refused
  const names = Object.keys(set)
  if (names.length === 0) return unpriced(described, model) ?? described
  texts.set(set)
  const asked = describe(operation, texts, headers, names)
  return unpriced(asked, model) ?? asked
}

/**
 * The error for a request that asks for something without a price (D61), or whose prompt has no bound (D89); null if all of
 * it has one. A free model needs none (D44).
 */
function unpriced(described: Described, model: Model): GatewayError | null {
  const { asks } = described
  if (asks.size === 0 || isFree(model.price)) return null
  for (const [ask, field] of asks) {
    const { price, what } = switchOf(ask)
    const wanted = ask === "service_tier" ? described.service_tier : null
    if (price !== null && !hasPrice(model, price, wanted))
      return lacking(field, ask, what, price === NONE, model)
  }
  const opening = openingField(described)
  return opening === null || model.context_tokens !== null ? null : unbounded(opening, model.name)
}

function hasPrice({ price, tiers, service_tiers }: Model, needed: string, wanted: string | null): boolean {
  if (needed === NONE) return false
  if (needed === "tiers") return tiers.length > 0
  if (needed === "service_tiers") return service_tiers.some(({ name }) => name === wanted)
  if (needed.startsWith(TOOL_RUN)) return Object.hasOwn(price.tool_runs ?? {}, needed.slice(TOOL_RUN.length))
  return Object.hasOwn(price.buckets ?? {}, needed)
}

function lacking(
  param: string,
  missing: string,
  what: string,
  is_final: boolean,
  { name }: Model,
): GatewayError {
  const cure = is_final
    ? "Leave it out: Tollgate cannot charge for it."
    : "Leave it out, or ask the operator to set a price."
  return new GatewayError("invalid_request", {
    param,
    message: `${param}: the model ${name} has no price for ${what}. ${cure}`,
    fields: { missing },
  })
}

/** The error for a prompt of unknown size. */
function unbounded(param: string, model: string): GatewayError {
  return new GatewayError("invalid_request", {
    param,
    message: `${param}: only the provider knows how long this prompt is, and the model ${model} has no context_tokens to hold for it. Leave it out, or ask the operator to set context_tokens.`,
    fields: { missing: "context_tokens" },
  })
}

/** The error for a request that the operator refuses for this model; null for any other. */
function refusedByOperator(request: unknown, { refuse, name }: Model): GatewayError | null {
  for (const { path, value } of refuse) {
    const asked = valuesAt(request, path).some(
      (one) => (one ?? null) !== null && (value === null || String(one) === value),
    )
    if (asked)
      return new GatewayError("invalid_request", {
        param: path,
        message: `${path}: the operator does not allow this for the model ${name}. Leave it out.`,
      })
  }
  return null
}

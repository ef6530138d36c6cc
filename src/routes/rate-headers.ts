import { GatewayError } from "../errors.ts"
import { vendorOf } from "../operations/request-headers.ts"
import type { Gateway } from "../service/gateway.ts"
import type { RateLeft } from "../wire/budget.ts"
import type { OperationName } from "../wire/call.ts"

/**
 * Headers with the rest of a key's `requests_per_minute` (D85) and of the call's budgets per minute (D99), under the
 * names of the API's family. Of several limits in one unit, the one with the least rest. In the messages family the
 * prefix is the vendor of the request's version header. Null without such limits.
 */
export function rateHeaders(
  { key_loads, config }: Pick<Gateway, "key_loads" | "config">,
  key_id: string | null,
  operation: OperationName,
  { headers }: Request,
  rates: readonly RateLeft[] = [],
): Readonly<Record<string, string>> | null {
  const own = key_id === null ? null : key_loads.rate(key_id, config.limits.per_key)
  if (own === null && rates.length === 0) return null
  const vendor = operation === "messages" ? vendorOf(headers, config.vendors) : null
  if (vendor === undefined) return null
  const tightest = new Map<string, RateLeft>()
  for (const rate of own === null ? rates : [own, ...rates]) {
    const before = tightest.get(rate.unit)
    if (before === undefined || rate.remaining < before.remaining) tightest.set(rate.unit, rate)
  }
  return Object.assign({}, ...[...tightest.values()].map((rate) => headersOf(rate, vendor)))
}

function headersOf({ unit, limit, remaining, reset_ms }: RateLeft, vendor: string | null) {
  if (vendor === null)
    return {
      [`x-ratelimit-limit-${unit}`]: String(limit),
      [`x-ratelimit-remaining-${unit}`]: String(remaining),
      [`x-ratelimit-reset-${unit}`]: `${Math.ceil(reset_ms / 1_000)}s`,
    }
  return {
    [`${vendor}-ratelimit-${unit}-limit`]: String(limit),
    [`${vendor}-ratelimit-${unit}-remaining`]: String(remaining),
    [`${vendor}-ratelimit-${unit}-reset`]: new Date(Date.now() + reset_ms).toISOString(),
  }
}

export function withRate(answer: Response, rate: Readonly<Record<string, string>> | null): Response {
  if (rate !== null) for (const [name, value] of Object.entries(rate)) answer.headers.set(name, value)
  return answer
}

/** The error with these headers, if a limit of the key or a budget per minute caused it. */
export function errorWithRate(
  error: unknown,
  gateway: Gateway,
  ...of: readonly [key_id: string | null, operation: OperationName, request: Request]
): unknown {
  if (!(error instanceof GatewayError) || error.code !== "rate_limited") return error
  const { rates } = error.detail
  return new GatewayError(error.code, {
    ...error.detail,
    headers: { ...error.detail.headers, ...rateHeaders(gateway, ...of, rates) },
  })
}

import { GatewayError } from "../errors.ts"
import { vendorOf } from "../operations/request-headers.ts"
import type { Gateway } from "../service/gateway.ts"
import type { OperationName } from "../wire/call.ts"

/**
 * Headers with the rest of a key's `requests_per_minute` (D85), named as the API's family names them. In the messages family the
 * prefix is the vendor of the request's version header. Null for a key without that limit.
 */
export function rateHeaders(
  { key_loads, config }: Pick<Gateway, "key_loads" | "config">,
  key_hash: string,
  operation: OperationName,
  { headers }: Request,
): Readonly<Record<string, string>> | null {
  const rate = key_loads.rate(key_hash, config.limits.per_key)
  if (rate === null) return null
  const { limit, remaining, reset_ms } = rate
  if (operation !== "messages")
    return {
      "x-ratelimit-limit-requests": String(limit),
      "x-ratelimit-remaining-requests": String(remaining),
      "x-ratelimit-reset-requests": `${Math.ceil(reset_ms / 1_000)}s`,
    }
  const vendor = vendorOf(headers, config.vendors)
  if (vendor === undefined) return null
  return {
    [`${vendor}-ratelimit-requests-limit`]: String(limit),
    [`${vendor}-ratelimit-requests-remaining`]: String(remaining),
    [`${vendor}-ratelimit-requests-reset`]: new Date(Date.now() + reset_ms).toISOString(),
  }
}

/** The answer with these headers. */
export function withRate(answer: Response, rate: Readonly<Record<string, string>> | null): Response {
  if (rate !== null) for (const [name, value] of Object.entries(rate)) answer.headers.set(name, value)
  return answer
}

/** The error with these headers, if a limit of the key caused it. */
export function faultWithRate(error: unknown, ...of: Parameters<typeof rateHeaders>): unknown {
  if (!(error instanceof GatewayError) || error.code !== "rate_limited") return error
  return new GatewayError(error.code, {
    ...error.detail,
    headers: { ...error.detail.headers, ...rateHeaders(...of) },
  })
}

import type { ErrorMeaning, ErrorMeanings } from "../presets/preset.ts"
import { isObject } from "../wire/usage.ts"
import { errorObject } from "./refusal.ts"

/** Statuses for an operator's account that is empty, or over a limit that the operator set. */
const STATUSES: ReadonlySet<number> = new Set([400, 401, 402, 403, 412, 429, 500])

/** Words of a 403 that objects to the content of the request. */
const CONTENT = /moderat|guardrail|content|policy|safety|context|flagged/i

/** True if the body of an answer with this status must be read to find whose fault it is. */
export function isJudgedByBody(status: number, { statuses }: ErrorMeanings): boolean {
  return statuses[status] === undefined && STATUSES.has(status)
}

/** The wait in seconds that a refusal names in its body, as Google's RetryInfo does (`46s`); NaN for none. */
export function retryDelayOf(body: string): number {
  const details = [errorObject(body).details].flat().filter(isObject)
  const delays = details.map(({ retryDelay }) => String(retryDelay)).filter((delay) => DELAY.test(delay))
  return Number(delays[0]?.slice(0, -1) ?? Number.NaN)
}

const DELAY = /^\d{1,9}(?:\.\d{1,9})?s$/

/** True if a refusal is an HTML page. A firewall before the provider sends it, often because of words in the request. */
export function isPage(body: string): boolean {
  return /^\s*</.test(body)
}

/** The meaning of a refusal by its code and message, because statuses vary (D82); null if the status decides. */
export function meaningOf(status: number, body: string, errors: ErrorMeanings): ErrorMeaning | null {
  if (!isJudgedByBody(status, errors)) return errors.statuses[status] ?? null
  const { message, code, type, details } = errorObject(body)
  if (status === 401 || status === 402) return "account"
  if (status === 403 && isPage(body)) return null
  if (status === 403) return CONTENT.test(`${message} ${code} ${type}`) ? null : "account"
  const words = [
    code,
    type,
    ...[details]
      .flat()
      .filter(isObject)
      .flatMap((one) => [one.error_code, one.reason]),
  ]
  if (words.some((word) => errors.account.has(String(word)))) return "account"
  return errors.account_messages.some((form) => form.test(String(message))) ? "account" : null
}

import { errorObject } from "./refusal.ts"

/**
 * How providers say that the operator's account is empty, or over a limit that the operator set: with statuses from 400 to
 * 500, so the words decide (D82). Read on 2026-11-25 in documentation, recorded answers and issues of each.
 */
const CODES: ReadonlySet<string> = new Set([
  // OpenAI. A DashScope `insufficient_quota` is a rate: its key rests for a minute as well.
  "insufficient_quota",
  "credit_balance_exhausted",
  "organization_spend_limit_exceeded",
  "project_spend_limit_exceeded",
  "organization_usage_limit_exceeded",
  // Anthropic.
  "billing_error",
  "enforced_spend_limit_reached",
  // DashScope, Zhipu, MiniMax.
  "Arrearage",
  "1113",
  "1008",
])

/** The beginnings of messages: what follows may repeat a client's words. */
const MESSAGES =
  /^(?:Your credit balance is too low|You have reached your specified API usage limits|Insufficient Balance\b|Your (?:newly created )?team .{0,80}(?:used all available credits|doesn't have any credits))/i

/** Statuses with which providers say it. */
const STATUSES: ReadonlySet<number> = new Set([400, 401, 402, 403, 412, 429, 500])

/** Words of a 403 that is about what the request says. */
const CONTENT = /moderat|guardrail|content|policy|safety|context|flagged/i

/** Whether the body of an answer with this status decides whose fault it is. */
export function isJudgedByBody(status: number): boolean {
  return STATUSES.has(status)
}

/** Whether a refusal is about the operator's key or account, and not about the request (D82). */
export function isAboutAccount(status: number, body: string): boolean {
  if (!STATUSES.has(status)) return false
  const { message, code, type, details } = errorObject(body)
  if (status === 401 || status === 402) return true
  if (status === 403) return !CONTENT.test(`${message} ${code} ${type}`)
  const told =
    typeof details === "object" && details !== null && "error_code" in details ? details.error_code : null
  if ([code, type, told].some((word) => CODES.has(String(word)))) return true
  return typeof message === "string" && MESSAGES.test(message)
}

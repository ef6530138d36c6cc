import type { UsageExport } from "../reconciliation/usage-export.ts"
import { CallBody } from "../wire/admin.ts"
import { STEP_MS } from "../wire/reconciliation.ts"
import { type AdminContext, listAll } from "./admin-command.ts"

/** The requests of an export beside our calls and attempts, by the provider's ids (D86, D98). */
export interface RequestMatches {
  readonly matched: number
  /** Ids of requests of the export without a call or an attempt of ours. */
  readonly missing: readonly string[]
  /** Our ids of calls whose tokens are others than those of the export. */
  readonly differing: readonly string[]
}

/** Null if the export has no requests, or none of them has a match. */
export async function matchRequests(
  context: AdminContext,
  { usages, from_ms, to_ms }: UsageExport,
): Promise<RequestMatches | null> {
  const reported = usages.flatMap((usage) =>
    usage.request_id === undefined ? [] : { ...usage, id: usage.request_id },
  )
  if (reported.length === 0) return null
  const [from, to] = [from_ms - STEP_MS.hour, to_ms].map((ms) => new Date(ms).toISOString())
  const every = { limit: Number.POSITIVE_INFINITY, after: null }
  const { data } = await listAll(context, "/calls", { from: from ?? "", to: to ?? "" }, CallBody, every)
  const calls = new Map(data.map((call) => [call.provider_request_id, call]))
  const attempts = new Set(
    data.flatMap((call) => (call.attempts ?? []).map((attempt) => attempt.provider_request_id)),
  )
  const missing = reported.filter(({ id }) => !calls.has(id) && !attempts.has(id)).map(({ id }) => id)
  if (missing.length === reported.length) return null
  const differing = reported.flatMap(({ id, prompt_tokens, completion_tokens }) => {
    const call = calls.get(id)
    if (call === undefined || call.usage === null) return []
    const { usage } = call
    return usage.prompt_tokens === prompt_tokens && usage.completion_tokens === completion_tokens
      ? []
      : call.id
  })
  return { matched: reported.length - missing.length, missing, differing }
}

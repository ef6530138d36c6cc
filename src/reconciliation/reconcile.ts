import { invalidField } from "../wire/fault.ts"
import {
  type ComparedUsage,
  MAX_DAYS,
  MAX_EXPORT_DAYS,
  MAX_USAGES,
  type NewReconciliation,
  type ReconciledSums,
  STEP_MS,
} from "../wire/reconciliation.ts"
import { compareUsage } from "./compared-usage.ts"
import { readUsageExport, type UsageExport } from "./usage-export.ts"

type ReadSums = (range: {
  readonly upstream: string
  readonly from: Date
  readonly to: Date
  readonly step_ms: number
}) => Promise<readonly ReconciledSums[]>

/** Compares a provider's export with our sums of its time (D98). Throws `invalid_request` for a value that is no such export. */
export async function reconcile(
  { provider, export: value, upstreams = [provider], models = {}, keys }: NewReconciliation,
  read: ReadSums,
  now_ms: number,
): Promise<ComparedUsage> {
  const exported = readUsageExport(provider, value)
  if (exported === null)
    throw invalidField(
      "export",
      `usage of ${provider} by model: the pages of one usage API, grouped by model, or for openrouter the CSV or JSON of its activity`,
    )
  if (exported.to_ms - exported.from_ms > MAX_EXPORT_DAYS * STEP_MS.day)
    throw invalidField("export", `usage of at most ${MAX_EXPORT_DAYS} days`)
  if (exported.usages.length > MAX_USAGES)
    throw invalidField("export", `at most ${MAX_USAGES} results: compare a longer export in parts`)
  const ours = await sumsOf(upstreams, exported, read)
  const sold = new Set(ours.map(({ model }) => model))
  const names = {
    modelOf: (theirs: string) => nameIn(models, theirs) ?? undated(sold, theirs),
    keyOf:
      keys === undefined
        ? null
        : (theirs: string | null) => (theirs === null ? "" : (nameIn(keys, theirs) ?? theirs)),
  }
  return compareUsage(exported, ours, names, now_ms)
}

async function sumsOf(upstreams: readonly string[], { step, from_ms, to_ms }: UsageExport, read: ReadSums) {
  const sums: ReconciledSums[] = []
  const part_ms = MAX_DAYS * STEP_MS.day
  for (const upstream of new Set(upstreams))
    for (let at = from_ms; at < to_ms; at += part_ms) {
      const range = { from: new Date(at), to: new Date(Math.min(at + part_ms, to_ms)) }
      sums.push(...(await read({ upstream, ...range, step_ms: STEP_MS[step] })))
    }
  return sums
}

function nameIn(names: Readonly<Record<string, string>>, theirs: string): string | undefined {
  return Object.hasOwn(names, theirs) ? names[theirs] : undefined
}

/** Our name of their model: the same, or without the date at its end. */
function undated(sold: ReadonlySet<string>, theirs: string): string {
  const name = theirs.replace(/-(?:\d{4}-\d\d-\d\d|\d{8})$/, "")
  return !sold.has(theirs) && sold.has(name) ? name : theirs
}

import type { Sources } from "../config/values.ts"
import { UsageNotesBody } from "../wire/usage-notes.ts"
import { openAdminClient } from "./admin-client.ts"
import { type Finding, type FindingVerdict, finding } from "./finding.ts"
import { UNEXPLAINED_FIX, UNREAD_FIX } from "./provider-words.ts"
import { count } from "./screen.ts"
import { findTarget } from "./target.ts"

type Noted = UsageNotesBody["data"][number]

/** Models whose recent calls may be charged other than the provider bills them (D87, D90), by the running gateway. */
export async function inspectCalls(sources: Sources): Promise<readonly Finding[]> {
  const client = await openAdminClient(findTarget({ url: null, database: false, data_dir: null }, sources))
  try {
    const { days, data } = await client.get("/usage-notes", UsageNotesBody)
    if (data.length === 0) return [finding("calls", `nothing to note in ${days} days`)]
    return data.map((noted) => finding(`calls of ${noted.model} at ${noted.upstream}`, verdictOf(noted)))
  } finally {
    await client.close()
  }
}

function verdictOf({ calls, notes, below_cost_calls, unread }: Noted): FindingVerdict {
  const parts: readonly (readonly [calls: number, what: string, fix: string])[] = [
    [notes.usage_unread, `with unknown numbers in the usage (${unread.join(", ")})`, UNREAD_FIX],
    [notes.total_unexplained, "whose parts do not add up to the total", UNEXPLAINED_FIX],
    [
      notes.usage_implausible,
      "with more usage than the request can cause",
      "Compare the receipts with the provider's bill.",
    ],
    [notes.unpriced, "with a kind that has no price", "Add the price to the model."],
    [
      below_cost_calls,
      "charged less than the provider says that they cost",
      "Check the prices of the model.",
    ],
  ]
  const found = parts.filter(([count]) => count > 0)
  return [
    `${count(calls)} noted: ${found.map(([calls, what]) => `${count(calls)} ${what}`).join("; ")}`,
    found.map(([, , fix]) => fix).join(" "),
  ]
}

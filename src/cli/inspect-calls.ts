import type { Sources } from "../config/values.ts"
import { UsageNotesBody } from "../wire/usage-notes.ts"
import { findTarget, openAdminClient } from "./admin-client.ts"
import type { Finding } from "./finding.ts"
import { count } from "./screen.ts"

type Noted = UsageNotesBody["data"][number]

/** Models whose recent calls may be charged other than the provider bills them (D87, D90), by the running gateway. */
export async function inspectCalls(sources: Sources): Promise<readonly Finding[]> {
  const client = await openAdminClient(findTarget({ url: null, database: false, data_dir: null }, sources))
  try {
    const { days, data } = await client.get("/usage-notes", UsageNotesBody)
    if (data.length === 0)
      return [{ what: "calls", ok: true, found: `nothing to note in ${days} days`, fix: null }]
    return data.map((noted) => ({
      what: `calls of ${noted.model} at ${noted.upstream}`,
      ok: false,
      ...wordsOf(noted),
    }))
  } finally {
    await client.close()
  }
}

function wordsOf({ calls, notes, below_cost_calls, unread }: Noted): Pick<Finding, "found" | "fix"> {
  const parts: readonly (readonly [calls: number, what: string, fix: string])[] = [
    [
      notes.usage_unread,
      `with unknown numbers in the usage (${unread.join(", ")})`,
      "Ask the provider what the numbers cost, and report the names to the project.",
    ],
    [
      notes.total_unexplained,
      "whose parts do not add up to the total",
      "If the provider reports thinking only in the total, set `usage: gemini` at the upstream.",
    ],
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
  return {
    found: `${count(calls)} noted: ${found.map(([calls, what]) => `${count(calls)} ${what}`).join("; ")}`,
    fix: found.map(([, , fix]) => fix).join(" "),
  }
}

import { eventTypes, FeedLine, MAX_EVENTS } from "../wire/events.ts"
import type { Query } from "./admin-client.ts"
import { type AdminContext, adminCommand } from "./admin-command.ts"
import { UsageError } from "./cli-error.ts"
import { columnsOf } from "./screen.ts"
import { timeOf } from "./typed-words.ts"

const DEFAULT_LIMIT = "20"
/** Longest wait of one request of `--follow`. */
const WAIT_S = "30"

const column = columnsOf(FeedLine)

/** `tollgate events`: the journal as a feed of events (D96). */
export const events = adminCommand({
  is_list: true,
  summary: "Read the event feed: calls, credits, budgets and everything else that the journal records",
  details:
    "Without --after and --from it begins at the first event. With --follow it prints each event as a line of JSON, a CloudEvent, and waits for the next.",
  words: {
    "--after <CURSOR>": "continue after the event with this cursor",
    "--from <TIME>": "begin at this time: 2026-11-21, an RFC 3339 time, or 24h (ago)",
    "--to <TIME>": "only events before this time",
    "--types <TYPES>": `only events of these types: ${eventTypes.join(", ")}`,
    "--limit <N>": `the maximum number of events to show (default: ${DEFAULT_LIMIT}, or all with --csv and --ndjson)`,
    "--follow": "continue with every new event",
  },
  examples: {
    "tollgate events --from 1h": "events of the last hour",
    "tollgate events --types tollgate.credit.added --json": "the first credits, as JSON",
    "tollgate events --from 2026-11-01 --to 2026-12-01 --csv": "all events of a month",
    "tollgate events --from 24h --follow | jq .data.charge": "what every call costs, from a day ago on",
  },
  async run({ after, from, to, types, limit, follow = false }, context) {
    if (after !== undefined && from !== undefined)
      throw new UsageError("--after and --from cannot be combined")
    if (follow && to !== undefined) throw new UsageError("--follow and --to cannot be combined")
    const query = {
      after,
      from: from && timeOf("--from", from),
      to: to && timeOf("--to", to),
      types,
      limit: limit ?? DEFAULT_LIMIT,
    }
    if (follow) await followed(context, query)
    else if (context.shows_rows && limit === undefined) showEvents(context, await all(context, query), query)
    else showEvents(context, await linesOf(context, query), query)
  },
})

/** All events that there are now. A page can be short before the last, so the end is an empty one. */
async function all(context: AdminContext, query: Query): Promise<FeedLine[]> {
  const data: FeedLine[] = []
  for await (const page of pages(context, { ...query, limit: String(MAX_EVENTS) })) {
    if (page.length === 0) break
    data.push(...page)
  }
  return data
}

/** Page after page, without end: a page can be empty, and the next one not. */
async function* pages(context: AdminContext, query: Query): AsyncGenerator<FeedLine[]> {
  for (let next = query; ; ) {
    const page = await linesOf(context, next)
    yield page
    const cursor = page.at(-1)?.cursor
    if (cursor !== undefined) next = { ...query, from: undefined, after: cursor }
  }
}

function showEvents(context: AdminContext, data: readonly FeedLine[], query: Query): void {
  const next = data.at(-1)?.cursor ?? query.after ?? null
  context.showTable(
    { data, next },
    {
      rows: data,
      columns: [
        column("time", { as: "brief" }),
        ...column.each("type", "id"),
        { title: "SUBJECT", of: ({ subject }) => subject, spare: 1 },
        { title: "KIND", of: kindOf, spare: 2 },
        { title: "AMOUNT", of: amountOf, as: "usd" },
      ],
      empty: "No events found.",
    },
  )
  if (next !== null) context.remark(`The feed continues with: --after ${next}`)
}

async function followed(context: AdminContext, query: Query): Promise<void> {
  for await (const page of pages(context, { ...query, wait: WAIT_S }))
    for (const line of page) context.screen.print(JSON.stringify(line))
}

function linesOf({ client }: AdminContext, query: Query): Promise<FeedLine[]> {
  return Array.fromAsync(client.lines("/events", FeedLine, query))
}

function amountOf({ data }: FeedLine): string | null {
  if ("unit" in data) return null
  if ("balance" in data) return data.balance
  if ("amount" in data) return data.amount
  if ("difference" in data) return data.difference
  return "charge" in data ? data.charge : null
}

function kindOf({ data }: FeedLine): string {
  return "kind" in data ? (data.kind ?? "") : ""
}

import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { FeedPage, FeedQuery } from "../../ledger/feed/feed.ts"
import { mapInTurns } from "../../turns.ts"
import { printCursor } from "../../wire/cursor.ts"
import { EventsQuery, FeedLine, feedQueryOf, NEXT_CURSOR } from "../../wire/events.ts"
import { eventBody } from "../event-body.ts"
import { makeAnswer } from "../list-formats.ts"
import { answer } from "../reference/operation.ts"
import { ofLedger } from "../reference/routes.ts"
import { FEED_ARCHIVED } from "../routing.ts"
import { madeAnswer, type Operators } from "./operators.ts"

/** The interval at which a waiting request polls, because LISTEN does not work through a pooler. */
const LOOK_MS = 500

/** `/admin/events`: the journal as a feed of events (D96). */
export function eventRoutes(operators: Operators) {
  return new Elysia({ name: "admin-events" }).get(
    "/events",
    async ({ query, request }) => {
      const page = await awaited(operators, feedQueryOf(query), (query.wait ?? 0) * 1_000, request.signal)
      const lineOf = ({ cursor, ...event }: FeedPage["events"][number]): FeedLine => ({
        ...eventBody(event),
        cursor: printCursor(cursor),
      })
      const lines = makeAnswer("ndjson", request, madeAnswer(operators))
      await lines.add(await mapInTurns(page.events, lineOf))
      return lines.end({ [NEXT_CURSOR]: printCursor(page.next) })
    },
    ofLedger({
      query: EventsQuery,
      response: {
        200: answer(
          "Events, one JSON object on each line, in the order of the journal. May be empty.",
          Type.String({ contentMediaType: "application/x-ndjson", contentSchema: FeedLine }),
        ),
      },
      operationId: "listEvents",
      summary: "Read the event feed",
      description: `Every entry of the journal about an ended call, money, a budget or an end user is an event, as [CloudEvents 1.0](https://cloudevents.io). To continue, send the \`cursor\` of the last event that you have processed, or the \`${NEXT_CURSOR}\` header, as \`after\`: no event is left out. After a failover or a restore, the feed sends events again, with the same \`id\`. Entries from before the version that brought the feed are not in it.`,
      invalid: "after",
      errors: [{ code: "archived", message: FEED_ARCHIVED }],
    }),
  )
}

/** The next events, as soon as there are some, or none after `wait_ms`. */
async function awaited(
  { ledger, draining }: Operators,
  query: FeedQuery,
  wait_ms: number,
  signal: AbortSignal,
): Promise<FeedPage> {
  const until_ms = performance.now() + wait_ms
  let { after, from } = query
  for (;;) {
    const page = await ledger.events({ ...query, after, from })
    const left_ms = until_ms - performance.now()
    if (page.events.length > 0 || left_ms <= 0 || signal.aborted || draining?.() === true) return page
    await Bun.sleep(Math.min(LOOK_MS, left_ms))
    after = page.next
    from = null
  }
}

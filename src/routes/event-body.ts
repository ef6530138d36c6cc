import type { FeedEvent } from "../ledger/feed/feed.ts"
import { printUsd } from "../money.ts"
import type { EventBody } from "../wire/events.ts"
import { printTime } from "../wire/time.ts"
import { callBody, creditBody } from "./record-bodies.ts"

/** An event of the feed as CloudEvents 1.0 (D96). */
export function eventBody(event: FeedEvent, at: Date): EventBody {
  const { id, account_id, data } = contentOf(event)
  return {
    specversion: "1.0",
    id,
    source: `/accounts/${account_id}`,
    type: event.type,
    subject: account_id,
    time: printTime(at),
    datacontenttype: "application/json",
    data,
  }
}

function contentOf(event: FeedEvent): Pick<EventBody, "id" | "data"> & { readonly account_id: string } {
  if (event.type === "tollgate.credit.added") {
    const { id, account_id } = event.credit
    return { id, account_id, data: { ...creditBody(event.credit), account_id } }
  }
  const { id, account_id } = event.call
  const data = callBody(event.call)
  if (event.type === "tollgate.call.ended") return { id, account_id, data }
  return { id: `${id}/c`, account_id, data: { ...data, difference: printUsd(event.difference_nano) } }
}

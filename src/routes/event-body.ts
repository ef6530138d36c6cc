import type { BudgetLogEvent } from "../ledger/feed/budget-log.ts"
import type { FeedPage } from "../ledger/feed/feed.ts"
import type { FeedEvent } from "../ledger/feed/feed-events.ts"
import { printUsd } from "../money.ts"
import { printAmount } from "../wire/budget.ts"
import {
  AttemptEventBody,
  BudgetEventBody,
  type BudgetLogBody,
  type EventBody,
  GrantEventBody,
  ThresholdEventBody,
} from "../wire/events.ts"
import { bodyOf } from "../wire/record.ts"
import { printTime } from "../wire/time.ts"
import { callBody, changeBody, creditBody, raiseBody } from "./record-bodies.ts"

/** An event of the feed as CloudEvents 1.0 (D96). */
export function eventBody({ event, at, subject }: Omit<FeedPage["events"][number], "cursor">): EventBody {
  const { id, data } = contentOf(event, at)
  return {
    specversion: "1.0",
    id,
    source:
      event.account_id === null
        ? `/${"changed" in event ? "operators" : "upstreams"}/${encodeURIComponent(subject)}`
        : `/accounts/${event.account_id}`,
    type: event.type,
    subject,
    time: printTime(at),
    datacontenttype: "application/json",
    data,
  }
}

/** An event of a budget, without the fields that all events share (D97). */
export function budgetLogBody({ event, at }: BudgetLogEvent): BudgetLogBody {
  const content = "entry" in event ? budgetChange(event.entry) : thresholdReached(event.crossing)
  return { type: event.type, time: printTime(at), ...content }
}

function contentOf(event: FeedEvent, at: Date): Pick<EventBody, "id" | "data"> {
  if ("alert" in event) return alertOf(event.alert)
  if ("changed" in event) return { id: event.changed.change.id, data: changeBody(event.changed) }
  const account_id = event.account_id ?? ""
  if ("call" in event) {
    const { id } = event.call
    const data = callBody(event.call)
    if (event.type === "tollgate.call.ended") return { id, data }
    return { id: `${id}/c`, data: { ...data, difference: printUsd(event.difference_nano) } }
  }
  if ("credit" in event) return { id: event.credit.id, data: { ...creditBody(event.credit), account_id } }
  if ("change" in event) return grantChange(event.change)
  if ("entry" in event) return budgetChange(event.entry)
  if ("crossing" in event) return thresholdReached(event.crossing)
  if ("attempt" in event) return failedAttempt(event.attempt)
  const { end_user_id: id } = event
  return { id, data: { account_id, id, forgotten_at: printTime(at) } }
}

type PartOf<Name extends string> = Record<Name, Extract<FeedEvent, Record<Name, unknown>>[Name]>[Name]

function alertOf({ id, account_id, details }: PartOf<"alert">): Pick<EventBody, "id" | "data"> {
  if ("upstream" in details) return { id, data: details }
  const { balance, threshold } = details
  return {
    id,
    data: {
      account_id: account_id ?? "",
      balance: printUsd(BigInt(balance)),
      threshold: printUsd(BigInt(threshold)),
    },
  }
}

function grantChange({ id, ...change }: PartOf<"change">) {
  return { id, data: bodyOf(GrantEventBody, change) }
}

function budgetChange({ id, settings, made_at, ...entry }: PartOf<"entry">) {
  const { unit, amount, is_hard } = settings
  const data = bodyOf(BudgetEventBody, {
    ...entry,
    ...settings,
    per: settings.period,
    mode: is_hard ? "hard" : "alert",
    amount: printAmount(unit, BigInt(amount)),
    raise: raiseBody(settings),
    made_at,
  })
  return { id, data }
}

function thresholdReached({ settings, since, member, ...crossing }: PartOf<"crossing">) {
  const { unit, period, selected } = settings
  const { budget_id, percent, spent, amount } = crossing
  const is_each = member !== ""
  const from = printTime(since)
  const data = bodyOf(ThresholdEventBody, {
    ...crossing,
    ...settings,
    selected: is_each && selected !== null ? `${selected}=${member}` : is_each ? member : selected,
    per: period,
    since: from,
    limit: printAmount(unit, amount),
    spent: printAmount(unit, spent),
  })
  return { id: `${budget_id}/${from}/${percent}${is_each ? `/${member}` : ""}`, data }
}

function failedAttempt({ id: call_id, ordinal, ...attempt }: PartOf<"attempt">) {
  const data = bodyOf(AttemptEventBody, {
    ...attempt,
    call_id,
    ordinal,
    ms: attempt.duration_ms,
    provider_request_id: attempt.request_id,
  })
  return { id: `${call_id}/a${ordinal}`, data }
}

import { CallBody, type KeyBody } from "../../../wire/admin.ts"
import { showUsd } from "../../amount.ts"
import { addressOf, shortId } from "../../fragment.ts"
import {
  costLines,
  type ReceiptStep,
  receiptSteps,
  releasedPart,
  type TimedCall,
} from "../../receipt-lines.ts"
import { showDuration } from "../../times.ts"
import { basisWords, counted, endingWords, failureWords, noteWords, stateWords } from "../../words.ts"
import { AdminError, ask, type ListBody } from "../admin-api.ts"
import { el, named, setText } from "../element.ts"
import {
  accountLink,
  callsLink,
  chip,
  copyable,
  count,
  detail,
  entriesOf,
  failureChip,
  moment,
  none,
  usd,
} from "../formats.ts"
import { part, poll, section, type Visit, view } from "../part.ts"
import { table } from "../table.ts"

const LOOK_MS = 2_000

const NO_RECEIPT =
  "Token counts and refused requests have no receipt. Look for the request id in the log of the gateway."

/** The receipt of a call: timeline, charge and reasons. An open call is polled until it has ended. */
export function receipt(visit: Visit, id: string): HTMLElement {
  let shown: { readonly text: string; readonly element: HTMLElement } | null = null
  let state: "unknown" | "polled" | "ended" = "unknown"
  const made = part(visit, {
    class: "receipt",
    async content(signal) {
      const call = await find(id, signal)
      if (call === null) {
        return el("div.card", el("p", "No call has the id ", el("code", id), "."), el("p.quiet", NO_RECEIPT))
      }
      if (call.state !== "open") state = "ended"
      else if (state === "unknown") {
        state = "polled"
        poll(visit, LOOK_MS, look)
      }
      const text = JSON.stringify(call)
      if (shown?.text !== text) shown = { text, element: receiptView(call, money(call), facts(call)) }
      return shown.element
    },
  })
  async function look(): Promise<boolean> {
    await made.load()
    return state === "polled"
  }
  const all = el("a", { href: addressOf("calls") }, "All calls")
  return view("Receipt", all, copyable(id, "Call id"), made.element)
}

async function find(id: string, signal: AbortSignal): Promise<CallBody | null> {
  try {
    return await ask<CallBody>(`/calls/${encodeURIComponent(id)}`, signal)
  } catch (error) {
    if (error instanceof AdminError && error.status === 404) return null
    throw error
  }
}

type ReceiptCall = TimedCall & Pick<CallBody, "failure" | "lines" | "held" | "charge">

/** A receipt as operators and holders of keys see it. */
export function receiptView(call: ReceiptCall, money: DetailEntries, facts: DetailEntries): HTMLElement {
  const { state, failure } = call
  const failed = failure === null ? null : failureChip(failure)
  return el(
    "div",
    el("p.verdict", chip(state), " ", failed, " ", stateWords(state)),
    section("Timeline", el("ol.timeline", ...receiptSteps(call).map((step) => stepOf(step, call)))),
    el("div.pair", section("Money", detail("facts", money)), section("Facts", detail("facts", facts))),
    call.lines.length === 0 ? null : section("Charge", ...charge(call)),
  )
}

/** A step, and with the first and the last one the hold, and how much of it was charged. */
function stepOf(
  { name, at, after_ms, missing }: ReceiptStep,
  call: Pick<CallBody, "held" | "charge">,
): HTMLElement {
  const is_end = name !== "First output" && name !== "Last byte" && call.charge !== null
  const amount = name === "Held" ? [usd(call.held), " held"] : is_end ? [usd(call.charge), " charged"] : []
  return el(
    at === null ? "li.missing" : "li",
    el("h3", name),
    el("p", at === null ? missing : moment(at)),
    after_ms ? el("p.quiet", `after ${showDuration(after_ms)}`) : null,
    el("p", ...amount),
  )
}

type DetailEntries = Parameters<typeof detail>[1]

function money(call: CallBody): DetailEntries {
  const { charge, overage, refunded, price_multiplier, basis, provider_cost } = call
  const is_multiplied = price_multiplier !== "1"
  const has_cost = is_multiplied || call.list_prices !== null
  const entry = entriesOf(CallBody, call)
  return [
    entry("held"),
    has_cost ? entry("cost") : null,
    is_multiplied ? entry("price_multiplier", `× ${price_multiplier}`) : null,
    entry("charge"),
    ["Released", usd(releasedPart(call))],
    overage === null || overage === "0" ? null : entry("overage"),
    refunded === "0" ? null : entry("refunded"),
    entry("basis", charge === null ? none() : basisWords(basis)),
    provider_cost === null ? null : entry("provider_cost"),
  ]
}

function facts(call: CallBody): DetailEntries {
  const entry = entriesOf(CallBody, call)
  const {
    account_id,
    key_id,
    operation,
    stream,
    session_id,
    agent_id,
    ending,
    failure,
    end_user,
    end_user_id,
  } = call
  const { provider_request_id, attempts, notes, unread, unexplained_tokens, estimate } = call
  return [
    entry("account_id", accountLink(account_id)),
    entry("key_id", keyLink(account_id, key_id)),
    entry("model"),
    entry("upstream", named(upstreamOf(call))),
    provider_request_id === null ? null : entry("provider_request_id"),
    ...attempts.map((attempt) => entry("attempts", named(attemptWords(attempt)))),
    entry("operation", `${operation}, ${stream ? "stream" : "JSON"}`),
    session_id === null ? null : entry("session_id", callsLink({ session: session_id }, named(session_id))),
    agent_id === null ? null : entry("agent_id"),
    ...Object.entries(call.tags).map(([name, value]) =>
      entry("tags", callsLink({ tag: `${name}=${value}` }, named(`${name}=${value}`))),
    ),
    end_user_id === null
      ? null
      : entry("end_user", callsLink({ end_user: end_user_id }, named(end_user ?? shortId(end_user_id)))),
    entry("ending", ending === null ? none() : endingWords(ending)),
    entry("failure", failure === null ? "none" : `${failureWords(failure)} (${failure}).`),
    ...notes.map((note) => entry("notes", noteWords(note))),
    unread.length === 0 ? null : entry("unread", unread.join(", ")),
    unexplained_tokens === 0 ? null : entry("unexplained_tokens", `${unexplained_tokens} tokens`),
    estimate === null ? null : entry("estimate", estimateWords(estimate)),
  ]
}

function estimateWords({ output_bytes, bytes_per_token }: NonNullable<CallBody["estimate"]>): string {
  return `${counted(output_bytes, "byte")} of output, ${bytes_per_token} bytes per token`
}

function upstreamOf({ upstream, upstream_key }: Pick<CallBody, "upstream" | "upstream_key">): string {
  return upstream_key === null ? upstream : `${upstream}, key ${upstream_key}`
}

function attemptWords(attempt: CallBody["attempts"][number]): string {
  const { status, failure, ms, provider_request_id } = attempt
  const words = `${upstreamOf(attempt)}: ${status ?? failure} after ${ms} ms`
  return provider_request_id === null ? words : `${words}, ${provider_request_id}`
}

/** A link to a key: its id, then its name when it has loaded. */
function keyLink(account_id: string, id: string): HTMLElement {
  const place = named(shortId(id))
  void ask<ListBody<KeyBody>>(`/accounts/${account_id}/keys?limit=1000`).then(
    ({ data }) => {
      const key = data.find((one) => one.id === id)
      if (key !== undefined) setText(place, key.name ?? `${key.prefix}…`)
    },
    () => {},
  )
  return callsLink({ key: id }, place)
}

function charge(call: Pick<CallBody, "lines" | "charge">): HTMLElement[] {
  const rows = table<ReturnType<typeof costLines>[number]>({
    label: "Charge",
    columns: [
      ["For", ({ kind }) => kind],
      ["Count", (line) => count(line.count), "right"],
      ["Price", ({ price, unit }) => el("data", { value: price }, `${showUsd(price)} per ${unit}`), "right"],
      ["Cost", ({ amount }) => usd(amount), "right"],
    ],
    empty: "",
  })
  rows.show(costLines(call))
  const sum = `The sum is rounded up once, to a billionth of a dollar: ${showUsd(call.charge ?? "0")}.`
  return [rows.element, el("p.quiet", `At the prices that applied when the call started. ${sum}`)]
}

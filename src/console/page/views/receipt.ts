import type { CallBody, KeyBody } from "../../../wire/admin.ts"
import { showCount, showUsd } from "../../amount.ts"
import { addressOf, shortId } from "../../fragment.ts"
import {
  type CostLine,
  costLines,
  type ReceiptStep,
  receiptSteps,
  releasedPart,
} from "../../receipt-lines.ts"
import { showDuration } from "../../times.ts"
import { basisWords, counted, endingWords, failureWords, noteWords, stateWords } from "../../words.ts"
import { AdminError, ask, type Listed } from "../admin-api.ts"
import { type Child, el, named, setText } from "../element.ts"
import { accountLink, chip, copyable, failureChip, moment, none, usd } from "../figures.ts"
import { table } from "../table.ts"
import { part, poll, type Visit } from "../visit.ts"

const LOOK_MS = 2_000

/** The receipt of a call: timeline, charge and reasons. An open call is polled until it has ended. */
export function receipt(visit: Visit, id: string): HTMLElement {
  const place = el("div")
  let shown: { readonly text: string; readonly element: HTMLElement } | null = null
  const made = part(visit, {
    title: null,
    class: "receipt",
    content: async (signal) => {
      const call = await find(id, signal)
      if (call === null) return missing(id)
      if (call.state === "open" && place.childElementCount === 0) place.append(poll(visit, LOOK_MS, look))
      if (call.state !== "open") place.replaceChildren()
      const text = JSON.stringify(call)
      if (shown?.text !== text) shown = { text, element: receiptOf(call) }
      return shown.element
    },
  })
  async function look(): Promise<void> {
    if (place.childElementCount > 0) await made.load()
  }
  void made.load()
  return el(
    "div",
    {},
    el("p", { class: "trail" }, el("a", { href: addressOf("calls") }, "Calls")),
    el("div", { class: "title" }, el("h1", { tabindex: -1 }, "Receipt")),
    copyable(id, "Call id"),
    made.element,
    place,
  )
}

async function find(id: string, signal: AbortSignal): Promise<CallBody | null> {
  try {
    return await ask<CallBody>(`/calls/${encodeURIComponent(id)}`, signal)
  } catch (error) {
    if (error instanceof AdminError && error.status === 404) return null
    throw error
  }
}

function missing(id: string): HTMLElement {
  return el(
    "div",
    { class: "card empty" },
    el("p", {}, "No call has the id ", el("code", {}, id), "."),
    el(
      "p",
      { class: "quiet" },
      "Token counts and refused requests have no receipt. Look for the request id in the log of the gateway.",
    ),
  )
}

function receiptOf(call: CallBody): HTMLElement {
  return el(
    "div",
    {},
    el(
      "p",
      { class: "verdict" },
      chip(call.state),
      " ",
      call.failure === null ? null : failureChip(call.failure),
      " ",
      stateWords(call.state),
    ),
    el(
      "section",
      { class: "card", "aria-label": "Timeline" },
      el("h2", { class: "unseen" }, "Timeline"),
      timeline(call),
    ),
    el(
      "div",
      { class: "pair" },
      el("section", { class: "card", "aria-label": "Money" }, el("h2", {}, "Money"), money(call)),
      el("section", { class: "card", "aria-label": "Facts" }, el("h2", {}, "Facts"), facts(call)),
    ),
    costs(call),
  )
}

function timeline(call: CallBody): HTMLElement {
  const steps = receiptSteps(call)
  return el("ol", { class: "timeline" }, ...steps.map((step) => stepOf(step, call)))
}

function stepOf({ name, at, after_ms, missing: why }: ReceiptStep, call: CallBody): HTMLElement {
  return el(
    "li",
    { class: at === null ? "missing" : null },
    el("h3", {}, name),
    el("p", { class: "when" }, at === null ? (why ?? "") : moment(at)),
    el("p", { class: "quiet" }, after_ms === null || after_ms === 0 ? "" : `after ${showDuration(after_ms)}`),
    amountOf(name, call),
  )
}

/** The hold, and how much of it was charged and released. */
function amountOf(name: ReceiptStep["name"], call: CallBody): Child {
  const { held, charge } = call
  if (name === "Held") return el("p", {}, el("span", { class: "figure" }, usd(held)), " held")
  if (name === "First output" || name === "Last byte" || charge === null) return null
  return el("p", {}, el("span", { class: "figure" }, usd(charge)), " charged")
}

function money(call: CallBody): HTMLElement {
  const { held, charge, overage, cost, price_multiplier } = call
  const back = releasedPart(call)
  return list([
    ["Held", usd(held)],
    ...(price_multiplier === "1"
      ? []
      : [["Cost", usd(cost)] as const, ["Price multiplier", `× ${price_multiplier}`] as const]),
    ["Charged", usd(charge)],
    ["Released", back === null ? none() : usd(back)],
    ...(overage === null || overage === "0" ? [] : [["Overage", usd(overage)] as const]),
    ["Charged by", charge === null ? none() : `${basisWords(call.basis)}`],
    ...(call.provider_cost === null ? [] : [["Provider's cost", usd(call.provider_cost)] as const]),
  ])
}

function facts(call: CallBody): HTMLElement {
  const { account_id, key_id, model, upstream, operation, stream, session_id, agent_id, ending } = call
  const { failure, notes, unread, unexplained_tokens, estimate } = call
  const { upstream_key, provider_request_id, attempts } = call
  return list([
    ["Account", accountLink(account_id)],
    ["Key", keyLink(account_id, key_id)],
    ["Model", named(model)],
    ["Upstream", named(upstream_key === null ? upstream : `${upstream}, key ${upstream_key}`)],
    ...(provider_request_id === null ? [] : [["Provider request id", named(provider_request_id)] as const]),
    ...attempts.map((attempt) => ["Other attempt", named(attemptWords(attempt))] as const),
    ["Operation", `${operation}, ${stream ? "stream" : "JSON"}`],
    ...(session_id === null ? [] : [["Session", sessionLink(session_id)] as const]),
    ...(agent_id === null ? [] : [["Agent", named(agent_id)] as const]),
    ["Ending", ending === null ? none() : endingWords(ending)],
    ["Failure", failure === null ? "none" : `${failureWords(failure)} (${failure}).`],
    ...notes.map((note) => ["Note", noteWords(note)] as const),
    ...(unread.length === 0 ? [] : [["Unknown numbers", unread.join(", ")] as const]),
    ...(unexplained_tokens === 0 ? [] : [["Total less its parts", `${unexplained_tokens} tokens`] as const]),
    ...(estimate === null
      ? []
      : [
          [
            "Estimated from",
            `${counted(estimate.output_bytes, "byte")} of output, ${estimate.bytes_per_token} bytes per token`,
          ] as const,
        ]),
  ])
}

function attemptWords(attempt: CallBody["attempts"][number]): string {
  const { upstream, upstream_key, status, failure, ms, provider_request_id } = attempt
  const by = upstream_key === null ? upstream : `${upstream}, key ${upstream_key}`
  return [`${by}: ${status ?? failure} after ${ms} ms`, provider_request_id ?? []].flat().join(", ")
}

function sessionLink(session: string): HTMLElement {
  const href = addressOf("calls", null, { session })
  return el("a", { href, title: "Show the calls of this session" }, named(session))
}

/** A link to a key: its id, then its name when it has loaded. */
function keyLink(account_id: string, id: string): HTMLElement {
  const place = named(shortId(id))
  void ask<Listed<KeyBody>>(`/accounts/${account_id}/keys?limit=1000`).then(
    ({ data }) => {
      const key = data.find((one) => one.id === id)
      if (key !== undefined) setText(place, key.name ?? `${key.prefix}…`)
    },
    () => {},
  )
  return el("a", { href: addressOf("calls", null, { key: id }), title: `Show the calls of ${id}` }, place)
}

function list(entries: readonly (readonly [name: string, value: Child])[]): HTMLElement {
  return el(
    "dl",
    { class: "facts" },
    ...entries.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  )
}

function costs(call: CallBody): HTMLElement | null {
  const lines = costLines(call)
  if (lines.length === 0) return null
  const rows = table<CostLine>({
    label: "Charge",
    key: ({ kind }) => kind,
    columns: [
      { title: "For", cell: ({ kind }) => kind },
      { title: "Count", right: true, cell: ({ count }) => (count === null ? none() : showCount(count)) },
      {
        title: "Price",
        right: true,
        cell: ({ price, unit }) => `${showUsd(price)} per ${unit}`,
      },
      { title: "Cost", right: true, cell: ({ amount }) => usd(amount) },
    ],
    empty: "",
  })
  rows.show(lines)
  return el(
    "section",
    { class: "card", "aria-label": "Charge" },
    el("h2", {}, "Charge"),
    rows.element,
    el(
      "p",
      { class: "quiet" },
      `At the prices that applied when the call started. The sum is rounded up once, to a billionth of a dollar: ${showUsd(call.charge ?? "0")}.`,
    ),
  )
}

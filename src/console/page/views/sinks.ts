import { SinkBody, type SinksBody } from "../../../wire/sinks.ts"
import { ask, tell } from "../admin-api.ts"
import { button, el } from "../element.ts"
import { ago, chip } from "../formats.ts"
import { poll, type Visit, view } from "../part.ts"
import { columnsOf, list } from "../table.ts"

const LOOK_MS = 3_000

const MEANINGS: Readonly<Record<string, string>> = {
  active: "It gets each event as it comes.",
  failing: "Its next event was refused and will be sent again.",
  paused: "An operator paused it. It will continue where it was.",
  stopped: "It does not take events, for the reason here. Resume it to continue where it was.",
}

const LEAD =
  "A sink gets events until it has taken them: a webhook, OpenMeter, Stripe or Lago. Create, rotate, replay and delete sinks with tollgate sinks."

/** The receivers of events: their state and lag (D96). */
export function sinks(visit: Visit): HTMLElement {
  const column = columnsOf(SinkBody)
  const all = list(visit, {
    label: "Sinks",
    columns: [
      ...column.each("name", "kind", "url"),
      column("state", ({ state }) => chip(state, MEANINGS[state] ?? state)),
      ...column.each("lag_seconds", "reason"),
      column("skipped", ({ skipped }) => String(skipped.length || "")),
      column("retry_at"),
      column("delivered_at", ({ delivered_at }) => ago(delivered_at)),
      ["Actions", (sink) => switching(sink, () => void all.load())],
    ],
    empty: "There are no sinks. Create one with tollgate sinks create.",
    load: (signal) => ask<SinksBody>("/sinks", signal),
  })
  poll(visit, LOOK_MS, all.load)
  return view("Events", null, el("p.quiet", LEAD), all.element)
}

function switching({ id, name, state }: SinkBody, done: () => void): HTMLElement {
  const paused = state === "active" || state === "failing"
  const words = paused ? "Pause" : "Resume"
  const change = () => void tell("PATCH", `/sinks/${id}`, { paused }).finally(done)
  return button(words, change, { "aria-label": `${words} ${name}` })
}

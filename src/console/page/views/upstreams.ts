import type { UpstreamBody } from "../../../wire/upstreams.ts"
import { addressOf } from "../../address.ts"
import { showDuration } from "../../moment.ts"
import { type Child, el, named } from "../element.ts"
import { chip } from "../figures.ts"
import { ask } from "../gateway.ts"
import { table } from "../table.ts"
import { poll, type Visit } from "../visit.ts"

const LOOK_MS = 3_000

const MEANINGS: Readonly<Record<string, string>> = {
  ready: "Calls go there.",
  open: "It failed five times in a row and is skipped for a while.",
  trying: "One call finds out whether it is back.",
}

/** How the providers do, as each process of the gateway finds it. */
export function upstreams(visit: Visit): HTMLElement {
  const rows = table<UpstreamBody>({
    label: "Upstreams",
    key: ({ name, worker }) => `${worker} ${name}`,
    columns: [
      { title: "Upstream", cell: ({ name }) => named(name) },
      { title: "Family", cell: ({ family }) => family },
      { title: "Found by", cell: ({ worker }) => (worker === null ? "this gateway" : `worker ${worker}`) },
      { title: "State", cell: ({ state }) => chip(state, MEANINGS[state] ?? state) },
      { title: "Failures in a row", right: true, cell: ({ failures }) => String(failures) },
      { title: "Next try", cell: nextTry },
      { title: "Models", cell: ({ models }) => el("span", { class: "names" }, ...models.map(modelLink)) },
    ],
    empty: "No upstream is configured.",
  })
  const status = poll(visit, LOOK_MS, async () => {
    rows.show((await ask<{ data: UpstreamBody[] }>("/upstreams", visit.signal)).data)
  })
  return el(
    "div",
    {},
    el("div", { class: "title" }, el("h1", { tabindex: -1 }, "Upstreams")),
    el("section", { class: "card" }, rows.element),
    el(
      "p",
      { class: "quiet" },
      "Five failures in a row open an upstream's breaker for 10 s; then one call tries it. Each process has breakers of its own, and other gateways on the same books are not asked.",
    ),
    status,
  )
}

function nextTry({ tries_in_ms }: UpstreamBody): Child {
  if (tries_in_ms === null) return "–"
  return tries_in_ms === 0 ? "by the next call" : `in ${showDuration(Math.ceil(tries_in_ms / 1_000) * 1_000)}`
}

function modelLink(model: string): HTMLElement {
  return el("a", { href: addressOf("calls", null, { model }) }, named(model))
}

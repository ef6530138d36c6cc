import type { UpstreamBody } from "../../../wire/statistics.ts"
import { addressOf } from "../../fragment.ts"
import { showDuration } from "../../times.ts"
import { ask } from "../admin-api.ts"
import { type Child, el, named } from "../element.ts"
import { chip } from "../figures.ts"
import { table } from "../table.ts"
import { poll, type Visit } from "../visit.ts"

const LOOK_MS = 3_000

const MEANINGS: Readonly<Record<string, string>> = {
  ready: "It receives calls.",
  open: "It failed five times in a row, for two accounts or because it cannot be connected to, and is skipped for 10 seconds.",
  trying: "One call is testing whether it works again.",
}

/** The state of the upstreams in each process of the gateway. */
export function upstreams(visit: Visit): HTMLElement {
  const rows = table<UpstreamBody>({
    label: "Upstreams",
    key: ({ name, worker }) => `${worker} ${name}`,
    columns: [
      { title: "Upstream", cell: ({ name }) => named(name) },
      { title: "Family", cell: ({ family }) => family },
      { title: "Process", cell: ({ worker }) => (worker === null ? "this gateway" : `worker ${worker}`) },
      { title: "State", cell: ({ state }) => chip(state, MEANINGS[state] ?? state) },
      { title: "Consecutive failures", right: true, cell: ({ failures }) => String(failures) },
      { title: "Next attempt", cell: nextTry },
      { title: "Accounts skipped", right: true, cell: ({ accounts_skipped }) => String(accounts_skipped) },
      { title: "Keys that rest", cell: restingKeys },
      { title: "Models", cell: ({ models }) => el("span", { class: "names" }, ...models.map(modelLink)) },
    ],
    empty: "No upstreams are configured.",
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
      "After five consecutive failures an upstream's circuit breaker opens for 10 seconds. Then one call tests it. Failures of one account's calls after they were sent open it for that account only. A key that the provider limits or refuses rests, and is asked only if no other is ready. Each process has its own breakers. Other gateways that share this database are not included.",
    ),
    status,
  )
}

function restingKeys({ keys }: UpstreamBody): Child {
  const resting = keys.filter(({ state }) => state !== "ready")
  if (resting.length === 0) return "–"
  return resting
    .map(({ name, state, rests_ms }) => {
      const what = `${name === "" ? "the key" : name}: ${state === "refused" ? "refused" : "rate limited"}`
      return rests_ms === null ? what : `${what}, ${showDuration(Math.ceil(rests_ms / 1_000) * 1_000)}`
    })
    .join("; ")
}

function nextTry({ tries_in_ms }: UpstreamBody): Child {
  if (tries_in_ms === null) return "–"
  return tries_in_ms === 0
    ? "with the next call"
    : `in ${showDuration(Math.ceil(tries_in_ms / 1_000) * 1_000)}`
}

function modelLink(model: string): HTMLElement {
  return el("a", { href: addressOf("calls", null, { model }) }, named(model))
}

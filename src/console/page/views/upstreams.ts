import { UpstreamBody } from "../../../wire/statistics.ts"
import { showDuration } from "../../times.ts"
import { ask } from "../admin-api.ts"
import { type Child, el } from "../element.ts"
import { chip, modelLink, names, none } from "../formats.ts"
import { poll, type Visit, view } from "../part.ts"
import { columnsOf, list } from "../table.ts"
import { attempts } from "./attempts.ts"
import { reconciliation } from "./reconciliation.ts"

const LOOK_MS = 3_000

const MEANINGS: Readonly<Record<string, string>> = {
  ready: "It receives calls.",
  open: "It failed five times in a row, for two accounts or because it cannot be connected to, and is skipped for 10 seconds.",
  trying: "One call is testing whether it works again.",
}

const BREAKERS =
  "After five consecutive failures an upstream's circuit breaker opens for 10 seconds. Then one call tests it. Failures of one account's calls after they were sent open it for that account only. A key that the provider limits or refuses rests, and is asked only if no other is ready. Each process has its own breakers. Other gateways that share this database are not included."

/** The state of the upstreams in each process of the gateway. */
export function upstreams(visit: Visit): HTMLElement {
  const column = columnsOf(UpstreamBody)
  const all = list(visit, {
    label: "Upstreams",
    key: ({ name, worker }: UpstreamBody) => `${worker} ${name}`,
    columns: [
      ...column.each("name", "family"),
      column("worker", ({ worker }) => (worker === null ? "this gateway" : `worker ${worker}`)),
      column("state", ({ state }) => chip(state, MEANINGS[state] ?? state)),
      column("failures"),
      column("tries_in_ms", nextTry),
      column("accounts_skipped"),
      column("keys", restingKeys),
      column("models", ({ models }) => names(models.map(modelLink))),
    ],
    empty: "No upstreams are configured.",
    load: (signal) => ask<{ data: UpstreamBody[] }>("/upstreams", signal),
  })
  poll(visit, LOOK_MS, all.load)
  return view(
    "Upstreams",
    null,
    all.element,
    el("p.quiet", BREAKERS),
    attempts(visit).element,
    reconciliation(),
  )
}

function restingKeys({ keys }: UpstreamBody): Child {
  const resting = keys.filter(({ state }) => state !== "ready")
  if (resting.length === 0) return none()
  const shown = resting.map(({ name, state, rests_ms }) => {
    const what = `${name || "the key"}: ${state === "refused" ? "refused" : "rate limited"}`
    return rests_ms === null ? what : `${what}, ${wholeSeconds(rests_ms)}`
  })
  return shown.join("; ")
}

function nextTry({ tries_in_ms }: UpstreamBody): Child {
  if (tries_in_ms === null) return none()
  return tries_in_ms === 0 ? "with the next call" : `in ${wholeSeconds(tries_in_ms)}`
}

function wholeSeconds(ms: number): string {
  return showDuration(Math.ceil(ms / 1_000) * 1_000)
}

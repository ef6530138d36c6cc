import { parseAddress } from "../fragment.ts"
import { findSession, isSignedIn, whenClosed } from "./admin-api.ts"
import { el } from "./element.ts"
import { type Visit, view } from "./part.ts"
import { shell, signIn } from "./shell.ts"
import { account } from "./views/account.ts"
import { accounts } from "./views/accounts.ts"
import { audit } from "./views/audit.ts"
import { budgetLog } from "./views/budgets.ts"
import { calls } from "./views/calls.ts"
import { live } from "./views/live.ts"
import { log } from "./views/log.ts"
import { overview } from "./views/overview.ts"
import { priceList, priceLists } from "./views/price-lists.ts"
import { receipt } from "./views/receipt.ts"
import { sinks } from "./views/sinks.ts"
import { upstreams } from "./views/upstreams.ts"
import { usage } from "./views/usage.ts"

interface MenuEntry {
  /** In the navigation; absent for a view that others link to. */
  readonly name?: string
  readonly view: (visit: Visit) => HTMLElement
  /** The view of one entry, by its id. */
  readonly one?: (visit: Visit, id: string) => HTMLElement
}

/** The views by the first part of their address. */
const places: Readonly<Record<string, MenuEntry>> = {
  "": { name: "Overview", view: overview },
  accounts: { name: "Accounts", view: accounts, one: account },
  budgets: { view: accounts, one: budgetLog },
  live: { name: "Live", view: live },
  calls: { name: "Calls", view: calls, one: receipt },
  usage: { name: "Usage", view: usage },
  prices: { name: "Prices", view: priceLists, one: priceList },
  upstreams: { name: "Upstreams", view: upstreams },
  events: { name: "Events", view: sinks },
  log: { name: "Log", view: log },
  audit: { name: "Audit", view: audit },
}

const root = document.querySelector<HTMLElement>("#console")
let visiting = new AbortController()
let frame: ReturnType<typeof shell> | null = null

whenClosed(askForToken)
addEventListener("hashchange", () => isSignedIn() && show())
addEventListener("keydown", findBySlash)
void findSession().then((is_open) => (is_open ? show() : askForToken(null)))

function askForToken(reason: string | null): void {
  leave()
  frame = null
  document.title = "Tollgate console"
  root?.replaceChildren(signIn(reason, show, root.dataset))
  root?.querySelector("input")?.focus()
}

function leave(): void {
  visiting.abort()
  document.querySelector("dialog")?.close()
}

function show(): void {
  leave()
  visiting = new AbortController()
  const is_first = frame === null
  if (frame === null) {
    frame = shell(
      Object.entries(places).flatMap(([at, { name }]) => (name === undefined ? [] : [[at, name]])),
    )
    root?.replaceChildren(frame.element)
  }
  const address = parseAddress(location.hash)
  const content = contentOf({ address, signal: visiting.signal })
  const title = content.querySelector("h1")
  document.title = `${title?.textContent} · Tollgate console`
  frame.show(address.view, content)
  scrollTo(0, 0)
  // After a page load the focus stays at the top, at the skip link.
  if (!is_first) title?.focus()
}

function contentOf(visit: Visit): HTMLElement {
  const { view: at, id } = visit.address
  const place = Object.hasOwn(places, at) ? places[at] : undefined
  if (place === undefined || (id !== null && place.one === undefined)) {
    return view("This page does not exist", null, el("a", { href: "#/" }, "Go to the overview"))
  }
  return id === null || place.one === undefined ? place.view(visit) : place.one(visit, id)
}

/** `/` moves to the search, unless the user is typing or a dialog is open. */
function findBySlash(event: KeyboardEvent): void {
  const is_typing = event.target instanceof HTMLElement && event.target.matches("input, textarea, select")
  const is_chord = event.ctrlKey || event.metaKey || event.altKey
  if (event.key !== "/" || is_typing || is_chord || document.querySelector("dialog[open]") !== null) return
  event.preventDefault()
  document.querySelector<HTMLElement>("input[type=search]")?.focus()
}

import { parseAddress } from "../fragment.ts"
import { findSession, isSignedIn, whenClosed } from "./admin-api.ts"
import { el } from "./element.ts"
import { type Shell, shell, signIn } from "./shell.ts"
import { account } from "./views/account.ts"
import { accounts } from "./views/accounts.ts"
import { audit } from "./views/audit.ts"
import { calls, live } from "./views/calls.ts"
import { overview } from "./views/overview.ts"
import { receipt } from "./views/receipt.ts"
import { upstreams } from "./views/upstreams.ts"
import type { Visit } from "./visit.ts"

const root = document.querySelector("#console")
let visiting = new AbortController()
let frame: Shell | null = null

whenClosed((reason) => askForToken(reason))
addEventListener("hashchange", () => {
  if (isSignedIn()) show()
})
addEventListener("keydown", findBySlash)
void findSession().then((is_open) => (is_open ? show() : askForToken(null)))

function askForToken(reason: string | null): void {
  leave()
  frame = null
  document.title = "Tollgate console"
  root?.replaceChildren(signIn(reason, show))
  root?.querySelector("input")?.focus()
}

/** Ends the visit and aborts its requests. */
function leave(): void {
  visiting.abort()
  document.querySelector("dialog")?.close()
}

function show(): void {
  leave()
  visiting = new AbortController()
  const is_first = frame === null
  if (frame === null) {
    frame = shell()
    root?.replaceChildren(frame.element)
  }
  const address = parseAddress(location.hash)
  const { title, content } = viewAt({ address, signal: visiting.signal })
  document.title = `${title} · Tollgate console`
  frame.show(address.view, content)
  scrollTo(0, 0)
  // After a page load the focus stays at the top, at the skip link.
  if (!is_first) content.querySelector("h1")?.focus()
}

/** `/` moves to the search, unless the user is typing or a dialog is open. */
function findBySlash(event: KeyboardEvent): void {
  const is_typing = event.target instanceof HTMLElement && event.target.matches("input, textarea, select")
  const is_chord = event.ctrlKey || event.metaKey || event.altKey
  if (event.key !== "/" || is_typing || is_chord || document.querySelector("dialog[open]") !== null) return
  event.preventDefault()
  frame?.focusSearch()
}

function viewAt(visit: Visit): { title: string; content: HTMLElement } {
  const { view, id } = visit.address
  switch (view) {
    case "":
      return { title: "Overview", content: overview(visit) }
    case "accounts":
      return id === null
        ? { title: "Accounts", content: accounts(visit) }
        : { title: "Account", content: account(visit, id) }
    case "live":
      return { title: "Live calls", content: live(visit) }
    case "calls":
      return id === null
        ? { title: "Calls", content: calls(visit) }
        : { title: "Receipt", content: receipt(visit, id) }
    case "upstreams":
      return { title: "Upstreams", content: upstreams(visit) }
    case "audit":
      return { title: "Audit", content: audit(visit) }
    default:
      return { title: "Not found", content: nowhere() }
  }
}

function nowhere(): HTMLElement {
  return el(
    "div",
    { class: "card empty" },
    el("h1", { tabindex: -1 }, "This page does not exist"),
    el("a", { href: "#/" }, "Go to the overview"),
  )
}

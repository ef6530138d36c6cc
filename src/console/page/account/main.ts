import { parseAddress } from "../../fragment.ts"
import { faultWords } from "../admin-api.ts"
import { button, el } from "../element.ts"
import { form } from "../form.ts"
import { ownAccount } from "./own-account.ts"
import { askOwn, forgetKey, useKey, whenForgotten } from "./own-api.ts"
import { ownReceipt } from "./own-receipt.ts"
import { ownStatement } from "./own-statements.ts"

/** The page of a key's holder (D104). */

const root = document.querySelector("#account")
const icon = (size: number) =>
  el("img", { src: "/account/assets/icon.svg", alt: "", width: size, height: size })
let visiting: AbortController | null = null

whenForgotten(askForKey)
addEventListener("hashchange", () => visiting !== null && show())
askForKey("")

function askForKey(reason: string): void {
  visiting?.abort()
  visiting = null
  document.title = "Your account"
  root?.replaceChildren(signIn(reason))
  root?.querySelector("input")?.focus()
}

function show(): void {
  visiting?.abort()
  visiting = new AbortController()
  const address = parseAddress(location.hash)
  const visit = { address, signal: visiting.signal }
  const { view, id } = address
  const content =
    id !== null && view === "calls"
      ? ownReceipt(visit, id)
      : id !== null && view === "statements"
        ? ownStatement(visit, id)
        : ownAccount(visit)
  const out = button("Forget the key", () => forgetKey("The key is forgotten."))
  root?.replaceChildren(
    el(
      "header",
      el("a.brand", { href: "#/" }, icon(26), "Your account"),
      el("span.space"),
      el("a.api", { href: "/docs" }, "API"),
      out,
    ),
    el("main", content),
    el("footer", "Times and days are in UTC."),
  )
  scrollTo(0, 0)
  content.querySelector("h1")?.focus()
}

const HINT = "One of your API keys. This page keeps it until you close or reload it."

function signIn(reason: string): HTMLElement {
  const { rows, values, refuse } = form([{ name: "key", label: "API key", hint: HINT, kind: "password" }])
  const fault = el("p.fault", { role: "alert" }, reason)
  const go = el("button.primary", { type: "submit" }, "Show the account")

  async function send(event: Event): Promise<void> {
    event.preventDefault()
    const { key = "" } = values()
    go.disabled = true
    try {
      whenForgotten(() => {})
      useKey(key)
      await askOwn("/account")
      whenForgotten(askForKey)
      return show()
    } catch (error) {
      fault.textContent = faultWords(error)
    } finally {
      whenForgotten(askForKey)
      go.disabled = false
    }
    refuse("key")
  }
  return el(
    "main.sign-in",
    icon(48),
    el("h1", { tabindex: -1 }, "Your account"),
    el("form", { submit: (event) => void send(event), novalidate: true }, ...rows, fault, go),
  )
}

import { parseAddress } from "../../fragment.ts"
import { button, el, icon } from "../element.ts"
import { signInPage } from "../form.ts"
import { ownAccount } from "./own-account.ts"
import { askOwn, forgetKey, useKey, whenForgotten } from "./own-api.ts"
import { ownReceipt } from "./own-receipt.ts"
import { ownStatement } from "./own-statements.ts"

/** The page of a key's holder (D104). */

const root = document.querySelector("#account")
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
      el("a.brand", { href: "#/" }, icon("account", 26), "Your account"),
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
  return signInPage({
    title: "Your account",
    icon: icon("account", 48),
    secret: { name: "key", label: "API key", hint: HINT },
    submit: "Show the account",
    reason,
    async open(key) {
      // A key that is refused here has an error of its own.
      whenForgotten(() => {})
      useKey(key)
      await askOwn("/account").finally(() => whenForgotten(askForKey))
      show()
      return null
    },
  })
}

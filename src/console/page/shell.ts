import { addressOf, idIn } from "../fragment.ts"
import { endSession, faultWords, openSession } from "./admin-api.ts"
import { button, el, icon, setText } from "./element.ts"
import { signInPage } from "./form.ts"

/** The frame of every view: navigation, receipt search and sign-out. */
export function shell(places: readonly (readonly [view: string, name: string])[]) {
  const main = el("main", { id: "main", tabindex: -1 })
  const links = places.map(([view, name]) => ({ view, link: el("a", { href: addressOf(view) }, name) }))
  // If the gateway did not end the session, the button shows it, because the browser still has the cookie.
  const signOut = button("Sign out", () => {
    endSession().catch((error: unknown) => setText(signOut, `Still signed in: ${faultWords(error)}`))
  })
  // The URL fragment is the address of a view, so the skip link moves the focus itself.
  const skip = (event: Event) => {
    event.preventDefault()
    main.focus()
  }
  const find = search()
  const element = el(
    "div",
    el("a.skip", { href: "#main", click: skip }, "Skip to the content"),
    el(
      "header",
      el("a.brand", { href: addressOf("") }, icon("console", 26), "Tollgate"),
      el("nav", { "aria-label": "Views" }, ...links.map(({ link }) => link)),
      find.element,
      el("a.api", { href: "/docs" }, "API"),
      signOut,
    ),
    main,
    el("footer", "Times and days are in UTC."),
  )
  return {
    element,
    show(view: string, content: HTMLElement): void {
      find.forget()
      for (const { view: of, link } of links) {
        link.setAttribute("aria-current", of === view ? "page" : "false")
      }
      main.replaceChildren(content)
    },
  }
}

const NO_ID = "This is not a request id. Use the UUID in the x-request-id header of a response."

function search(): { readonly element: HTMLElement; forget(): void } {
  const input = el("input", {
    type: "search",
    placeholder: "Request id",
    "aria-label": "Find the receipt of a call by its request id",
    autocomplete: "off",
    spellcheck: "false",
    "aria-keyshortcuts": "/",
    "aria-describedby": "search-fault",
  })
  const fault = el("p.fault", { id: "search-fault", role: "status" })
  const find = (event: Event) => {
    event.preventDefault()
    const id = idIn(input.value)
    setText(fault, id === null ? NO_ID : "")
    if (id === null) return
    input.value = ""
    location.hash = addressOf("calls", id)
  }
  const parts = [input, el("kbd", { "aria-hidden": "true" }, "/"), fault]
  const forget = () => setText(fault, "")
  return {
    element: el("form", { role: "search", "aria-label": "Receipts", submit: find, input: forget }, ...parts),
    forget,
  }
}

const WRONG_TOKEN =
  "This is not the admin token of the gateway. Use the value of TOLLGATE_ADMIN_TOKEN, or the token that the demo printed when it started."

/** The sign-in form, with a button for the OpenID provider if there is one; `reason` says why an earlier session ended. */
export function signIn(
  reason: string | null,
  opened: () => void,
  { provider, signIn: href = "" }: DOMStringMap,
): HTMLElement {
  const hint = "The session ends when you sign out, or after 12 hours."
  return signInPage({
    title: "Tollgate console",
    icon: icon("console", 48),
    secret: { name: "token", label: "Admin token", hint },
    submit: "Sign in",
    reason: reason ?? "",
    other: provider !== undefined && button(`Sign in with ${provider}`, () => location.assign(href)),
    async open(token) {
      if (token === "") return "Enter the admin token."
      if (!(await openSession(token))) return WRONG_TOKEN
      opened()
      return null
    },
  })
}

import { addressOf, idIn } from "../fragment.ts"
import { endSession, openSession } from "./admin-api.ts"
import { fieldRow } from "./dialog.ts"
import { el, setText } from "./element.ts"
import { faultWords } from "./visit.ts"

const PLACES = [
  ["", "Overview"],
  ["accounts", "Accounts"],
  ["live", "Live"],
  ["calls", "Calls"],
  ["upstreams", "Upstreams"],
  ["audit", "Audit"],
] as const

export interface Shell {
  readonly element: HTMLElement
  /** Shows a view as the content of the page. */
  show(view: string, content: HTMLElement): void
  focusSearch(): void
}

/** The frame of every view: navigation, receipt search and sign-out. */
export function shell(): Shell {
  const main = el("main", { id: "main", tabindex: -1 })
  const links = PLACES.map(([view, name]) => ({ view, link: el("a", { href: addressOf(view) }, name) }))
  const signOut = el("button", { type: "button", click: leave }, "Sign out")
  const element = el(
    "div",
    { class: "shell" },
    el("a", { class: "skip", href: "#main", click: skip }, "Skip to the content"),
    el(
      "header",
      {},
      el(
        "a",
        { class: "brand", href: addressOf("") },
        el("img", { src: "/console/assets/icon.svg", alt: "", width: 26, height: 26 }),
        "Tollgate",
      ),
      el("nav", { "aria-label": "Views" }, ...links.map(({ link }) => link)),
      search(),
      el("div", { class: "aside" }, el("a", { href: "/docs" }, "API"), signOut),
    ),
    main,
  )

  /** If the gateway did not end the session, the button shows it, because the browser still has the cookie. */
  function leave(): void {
    endSession().catch((error: unknown) => setText(signOut, `Still signed in: ${faultWords(error)}`))
  }

  /** The URL fragment is the address of a view, so the skip link moves the focus itself. */
  function skip(event: Event): void {
    event.preventDefault()
    main.focus()
  }

  return {
    element,
    focusSearch: () => element.querySelector<HTMLElement>("input[type=search]")?.focus(),
    show(view, content) {
      for (const { view: of, link } of links) {
        link.setAttribute("aria-current", of === view ? "page" : "false")
        if (of === view) link.scrollIntoView({ block: "nearest" })
      }
      main.replaceChildren(content)
    },
  }
}

function search(): HTMLElement {
  const input = el("input", {
    type: "search",
    placeholder: "Request id",
    "aria-label": "Find the receipt of a call by its request id",
    autocomplete: "off",
    spellcheck: "false",
    "aria-keyshortcuts": "/",
    "aria-describedby": "search-fault",
  })
  const fault = el("p", { class: "search-fault", id: "search-fault", role: "status" })
  const find = (event: Event) => {
    event.preventDefault()
    const id = idIn(input.value)
    setText(
      fault,
      id === null ? "This is not a request id. Use the UUID in the x-request-id header of a response." : "",
    )
    if (id === null) return
    input.value = ""
    location.hash = addressOf("calls", id)
  }
  return el(
    "form",
    { role: "search", submit: find, input: () => setText(fault, "") },
    input,
    el("kbd", { "aria-hidden": "true" }, "/"),
    fault,
  )
}

/** The sign-in form; `reason` says why an earlier session ended. */
export function signIn(reason: string | null, opened: () => void): HTMLElement {
  const input = el("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true })
  const fault = el("p", { class: "fault", role: "alert", hidden: reason === null }, reason ?? "")
  const button = el("button", { type: "submit", class: "primary" }, "Sign in")

  async function send(event: Event): Promise<void> {
    event.preventDefault()
    const token = input.value.trim()
    if (token === "") return refuse("Enter the admin token.")
    button.disabled = true
    try {
      if (await openSession(token)) return opened()
      refuse(
        "This is not the admin token of the gateway. Use the value of TOLLGATE_ADMIN_TOKEN, or the token that the demo printed when it started.",
      )
    } catch (error) {
      refuse(faultWords(error))
    } finally {
      button.disabled = false
    }
  }

  function refuse(words: string): void {
    setText(fault, words)
    fault.hidden = false
    input.setAttribute("aria-invalid", "true")
    input.select()
  }

  return el(
    "main",
    { class: "sign-in" },
    el("img", { src: "/console/assets/icon.svg", alt: "", width: 48, height: 48 }),
    el("h1", { tabindex: -1 }, "Tollgate console"),
    el(
      "form",
      { submit: (event) => void send(event), novalidate: true },
      fieldRow({
        name: "token",
        label: "Admin token",
        hint: "The session ends when you sign out, or after 12 hours.",
        input,
      }),
      fault,
      button,
    ),
  )
}

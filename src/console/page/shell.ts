import { addressOf, idIn } from "../address.ts"
import { el, setText } from "./element.ts"
import { closeSession } from "./session.ts"

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
      el(
        "div",
        { class: "aside" },
        el("a", { href: "/docs" }, "API"),
        el("button", { type: "button", click: () => closeSession("You have signed out.") }, "Sign out"),
      ),
    ),
    main,
  )

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

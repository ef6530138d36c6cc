import { fieldRow } from "./dialog.ts"
import { el, setText } from "./element.ts"
import { isToken } from "./gateway.ts"
import { openSession } from "./session.ts"
import { faultWords } from "./visit.ts"

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
      if (await isToken(token)) {
        openSession(token)
        return opened()
      }
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
        hint: "Kept in this tab until you sign out or close the tab.",
        input,
      }),
      fault,
      button,
    ),
  )
}

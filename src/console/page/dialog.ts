import { AdminError } from "./admin-api.ts"
import { type Child, el, setText } from "./element.ts"
import { faultWords } from "./visit.ts"

export interface Field {
  readonly name: string
  readonly label: string
  readonly hint?: string
  /** The input, select or text area, without a name. */
  readonly input: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement
}

interface DialogOptions {
  readonly title: string
  readonly text?: Child
  readonly fields?: readonly Field[]
  readonly submit: string
  readonly is_dangerous?: boolean
  /** Runs the action with the trimmed values by field. The returned element replaces the form. */
  act(values: Readonly<Record<string, string>>): Promise<HTMLElement | null>
}

/** A dialog that asks for the input of an action, or for a confirmation. Esc closes it; errors mark their field. */
export function openDialog({
  title,
  text = null,
  fields = [],
  submit,
  is_dangerous = false,
  act,
}: DialogOptions): void {
  const fault = el("p", { class: "fault", role: "alert", hidden: true })
  const action = el("button", { type: "submit", class: is_dangerous ? "danger" : "primary" }, submit)
  const cancel = el("button", { type: "button", click: () => dialog.close() }, "Cancel")
  const form = el(
    "form",
    { submit: (event) => void send(event), novalidate: true },
    typeof text === "string" ? el("p", {}, text) : text,
    ...fields.map(fieldRow),
    fault,
    el("div", { class: "actions" }, cancel, action),
  )
  const heading = el("h2", { id: "dialog-title" }, title)
  const dialog = el(
    "dialog",
    { "aria-labelledby": "dialog-title", close: () => dialog.remove() },
    heading,
    form,
  )

  async function send(event: Event): Promise<void> {
    event.preventDefault()
    action.disabled = true
    fault.hidden = true
    for (const { input } of fields) input.removeAttribute("aria-invalid")
    try {
      const shown = await act(Object.fromEntries(fields.map(({ name, input }) => [name, input.value.trim()])))
      if (shown === null) dialog.close()
      else form.replaceWith(shown, el("div", { class: "actions" }, closer()))
    } catch (error) {
      refuse(error)
    }
    action.disabled = false
  }

  function refuse(error: unknown): void {
    setText(fault, faultWords(error))
    fault.hidden = false
    const param = error instanceof AdminError ? (error.param?.split(/[.[]/)[0] ?? null) : null
    const wrong = fields.find(({ name }) => name === param)?.input
    wrong?.setAttribute("aria-invalid", "true")
    wrong?.focus()
  }

  function closer(): HTMLElement {
    return el("button", { type: "button", class: "primary", click: () => dialog.close() }, "Done")
  }

  document.body.append(dialog)
  dialog.showModal()
  const first = fields[0]?.input ?? (is_dangerous ? cancel : action)
  first.focus()
}

export function fieldRow({ name, label, hint, input }: Field): HTMLElement {
  input.id = `field-${name}`
  input.name = name
  const hint_id = `${input.id}-hint`
  if (hint !== undefined) input.setAttribute("aria-describedby", hint_id)
  return el(
    "div",
    { class: "field" },
    el("label", { for: input.id }, label),
    input,
    hint === undefined ? null : el("p", { class: "hint", id: hint_id }, hint),
  )
}

/** A select; the first option is selected by default. */
export function select(
  options: readonly (readonly [value: string, label: string])[],
  chosen = "",
): HTMLSelectElement {
  const input = el(
    "select",
    {},
    ...options.map(([value, label]) => el("option", { value, selected: value === chosen }, label)),
  )
  return input
}

import type { Static, TObject, TProperties } from "@sinclair/typebox"
import { type FieldPath, fieldAt, valueAt } from "../../wire/field.ts"
import { addressOf, type PageQuery } from "../fragment.ts"
import { AdminError, faultWords } from "./admin-api.ts"
import { button, type Child, el, rowButton, setText } from "./element.ts"

export interface FormField {
  readonly name: string
  readonly label: string
  readonly hint?: string
  /** One line of text by default. A list is a choice of values with their labels. */
  readonly kind?:
    | "text"
    | "usd"
    | "time"
    | "lines"
    | "password"
    | readonly (readonly [value: string, label: string])[]
  /** A time is in RFC 3339, and asked for in UTC. */
  readonly value?: string
}

export type FormValues = Readonly<Record<string, string>>

/** Returns a function that makes a form field with the title and unit from the schema and the value from the record. */
export function fieldsOf<P extends TProperties>(schema: TObject<P>, record?: Static<TObject<P>>) {
  return (name: FieldPath<P>, hint?: string, kind?: FormField["kind"]): FormField => {
    const { title, unit } = fieldAt(schema, name)
    return {
      name,
      label: unit === "usd" ? `${title} in USD` : title,
      kind: kind ?? (unit === "usd" || unit === "time" ? unit : "text"),
      value: String(valueAt(record, name) ?? ""),
      ...(hint !== undefined && { hint }),
    }
  }
}

export const REASON: FormField = {
  name: "reason",
  label: "Reason",
  hint: "Optional. Recorded in the journal.",
}

export const choices = (words: readonly string[]) => words.map((word): [string, string] => [word, word])

export const filled = (values: FormValues) =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""))

/** The lines of a text that are not empty. */
export const linesIn = (text = "") =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")

export function form(fields: readonly FormField[]) {
  const inputs = fields.map((field) => ({ ...field, input: inputOf(field) }))
  return {
    rows: inputs.map(({ input, label, hint }) =>
      el(
        "div.field",
        el("label", { for: input.id }, label),
        input,
        hint === undefined ? null : el("p.hint", { id: `${input.id}-hint` }, hint),
      ),
    ),
    /** The trimmed values by field; times in RFC 3339. */
    values: (): FormValues =>
      Object.fromEntries(
        inputs.map(({ name, kind, input: { value } }) => [
          name,
          kind === "time" && value !== "" ? new Date(`${value}Z`).toISOString() : value.trim(),
        ]),
      ),
    /** Marks the field with this name as wrong, and no other. */
    refuse(name: string | null): void {
      const wrong = inputs.find((one) => one.name === name)?.input
      for (const { input } of inputs) input.removeAttribute("aria-invalid")
      wrong?.setAttribute("aria-invalid", "true")
      wrong?.focus()
    },
  }
}

function inputOf({
  name,
  hint,
  kind = "text",
  value = "",
}: FormField): HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement {
  const id = `field-${name}`
  const shared = { id, name, "aria-describedby": hint === undefined ? null : `${id}-hint` }
  if (typeof kind !== "string") {
    const options = kind.map(([one, label]) => el("option", { value: one, selected: one === value }, label))
    return el("select", shared, ...options)
  }
  const text = { ...shared, autocomplete: "off", spellcheck: "false" }
  switch (kind) {
    case "lines":
      return el("textarea", { ...text, rows: 3 }, value)
    case "time":
      return el("input", { ...shared, type: "datetime-local", step: 1, value: utcTime(value) })
    case "password":
      return el("input", { ...text, type: "password", required: true })
    default:
      return el("input", { ...text, maxlength: 500, inputmode: kind === "usd" ? "decimal" : null, value })
  }
}

/** An RFC 3339 time in the form of a `datetime-local` field. */
function utcTime(text: string): string {
  const at = new Date(text)
  return Number.isNaN(at.getTime()) ? "" : at.toISOString().slice(0, 19)
}

export const filterIn = (fields: readonly FormField[], query: PageQuery): PageQuery =>
  Object.fromEntries(fields.map(({ name }) => [name, query[name] ?? ""]))

/** A form of filters, which opens the view with them. */
export function filterForm(
  view: string,
  fields: readonly FormField[],
  filter: PageQuery,
  ...tools: readonly Child[]
): HTMLElement {
  const { rows, values } = form(fields.map((field) => ({ ...field, value: filter[field.name] ?? "" })))
  const apply = (event: Event) => {
    event.preventDefault()
    location.hash = addressOf(view, null, values())
  }
  const show = el("button.primary", { type: "submit" }, "Show")
  const actions = el("div.actions", show, ...tools)
  return el("form.filters", { submit: apply, "aria-label": "Filters" }, ...rows, actions)
}

interface SignIn {
  readonly title: string
  readonly icon: HTMLElement
  readonly secret: Pick<FormField, "name" | "label" | "hint">
  readonly submit: string
  /** Why an earlier sign-in has ended. */
  readonly reason: string
  /** Shown beside the button. */
  readonly other?: Child
  /** Signs in. Resolves with what is wrong with the secret, or null if it is accepted. */
  open(secret: string): Promise<string | null>
}

export function signInPage({ title, icon, secret, submit, reason, other = null, open }: SignIn): HTMLElement {
  const { rows, values, refuse } = form([{ ...secret, kind: "password" }])
  const fault = el("p.fault", { role: "alert" }, reason)
  const go = el("button.primary", { type: "submit" }, submit)

  async function send(event: Event): Promise<void> {
    event.preventDefault()
    go.disabled = true
    const wrong = await open(values()[secret.name] ?? "").catch(faultWords)
    go.disabled = false
    if (wrong === null) return
    setText(fault, wrong)
    refuse(secret.name)
  }
  const fields = el(
    "form",
    { submit: (event) => void send(event), novalidate: true },
    ...rows,
    fault,
    go,
    other,
  )
  return el("main.sign-in", icon, el("h1", { tabindex: -1 }, title), fields)
}

export interface Action {
  readonly title: string
  readonly text?: Child
  readonly fields?: readonly FormField[]
  /** The label of its button in a row by default. */
  readonly submit?: string
  readonly is_dangerous?: boolean
  /** Runs the action with the values by field. An element in return replaces the form. */
  act(values: FormValues): Promise<unknown>
  /** Called when the action has succeeded. */
  done?(): void
}

/** Buttons of a row of a table by their labels, each of which opens a dialog. `of` says for screen readers which row it is. */
export function rowActions(of: string, done: () => void, actions: Readonly<Record<string, () => Action>>) {
  return Object.entries(actions).map(([label, action]) =>
    rowButton(label, of, () => openDialog({ submit: label, done, ...action() })),
  )
}

/** A dialog that asks for the input of an action, or for a confirmation. Esc closes it; errors mark their field. */
export function openDialog(action: Action): void {
  const { title, text = null, fields = [], submit = title, is_dangerous = false, act, done } = action
  const { rows, values, refuse } = form(fields)
  const fault = el("p.fault", { role: "alert", hidden: true })
  const go = el("button", { type: "submit", class: is_dangerous ? "danger" : "primary" }, submit)
  const close = () => dialog.close()
  const cancel = button("Cancel", close)
  const content = el(
    "form",
    { submit: (event) => void send(event), novalidate: true },
    typeof text === "string" ? el("p", text) : text,
    ...rows,
    fault,
    el("div.actions", cancel, go),
  )
  const heading = el("h2", { id: "dialog-title" }, title)
  const dialog = el(
    "dialog",
    { "aria-labelledby": heading.id, close: () => dialog.remove() },
    heading,
    content,
  )

  async function send(event: Event): Promise<void> {
    event.preventDefault()
    go.disabled = true
    fault.hidden = true
    refuse(null)
    try {
      const shown = await act(values())
      done?.()
      if (!(shown instanceof HTMLElement)) return close()
      content.replaceWith(shown, el("div.actions", button("Done", close, { class: "primary" })))
    } catch (error) {
      setText(fault, faultWords(error))
      fault.hidden = false
      refuse(error instanceof AdminError ? (error.param?.split(/[.[]/)[0] ?? null) : null)
    }
    go.disabled = false
  }

  document.body.append(dialog)
  dialog.showModal()
  const first = dialog.querySelector<HTMLElement>("input, select, textarea")
  ;(first ?? (is_dangerous ? cancel : go)).focus()
}

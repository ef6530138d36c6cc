/**
 * Creates elements from tags, attributes and text. Text is never parsed as markup. These functions are all that the page
 * needs of a framework: its views are drawn once for each visit, and `table` keeps the rows that polling has not changed.
 */

export type Child = Node | string | null | false

type Listener = (event: Event) => void
type ElementAttributes = Readonly<Record<string, string | number | boolean | null | Listener>>

/** An element, as `el("p.quiet", { id: "note" }, "text")`. A function listens to the event of its name. */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  spec: Tag | `${Tag}.${string}`,
  ...parts: readonly (ElementAttributes | Child)[]
): HTMLElementTagNameMap[Tag] {
  const [tag, ...names] = spec.split(".")
  // The type of `spec` says that its first part is a tag.
  const element = document.createElement(tag as Tag)
  if (names.length > 0) element.className = names.join(" ")
  for (const part of parts) {
    if (part === null || part === false) continue
    if (typeof part === "string" || part instanceof Node) element.append(part)
    else setAttributes(element, part)
  }
  return element
}

function setAttributes(element: Element, attributes: ElementAttributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value)
    else if (value !== null && value !== false)
      element.setAttribute(name, value === true ? "" : String(value))
  }
}

export function button(
  label: string,
  click: Listener,
  attributes: ElementAttributes = {},
): HTMLButtonElement {
  return el("button", { type: "button", click, ...attributes }, label)
}

/** A button in a row of a table. `of` says for screen readers which row it is. */
export function rowButton(label: string, of: string, click: Listener): HTMLButtonElement {
  return button(label, click, { class: "small", "aria-label": `${label} ${of}` })
}

/** The gateway's icon, among the assets of a page. */
export function icon(page: "console" | "account", size: number): HTMLElement {
  return el("img", { src: `/${page}/assets/icon.svg`, alt: "", width: size, height: size })
}

/** Sets the text only if it differs, so that unchanged text does not flicker and keeps its selection. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text
}

/** Replaces `before` by `after` and keeps the focus at the same place. */
export function replaceElement(before: Element, after: Element): void {
  const focused = document.activeElement
  const at = focused === null ? -1 : [...before.querySelectorAll(FOCUSABLE)].indexOf(focused)
  before.replaceWith(after)
  const places = after.querySelectorAll<HTMLElement>(FOCUSABLE)
  if (at >= 0) (places[at] ?? places[0])?.focus()
}

const FOCUSABLE = "a, button, input, select, textarea, [tabindex]"

/** A user-provided name, isolated so that its writing direction does not affect the text around it. */
export function named(name: string): HTMLElement {
  return el("bdi.name", name)
}

/**
 * Creates elements from tags, attributes and text. Text is never parsed as markup. These functions are all that the page
 * needs of a framework: its views are drawn once for each visit, and `Table` keeps the rows that polling has not changed.
 */

export type Child = Node | string | null | false

type Listener = (event: Event) => void
type Attributes = Readonly<Record<string, string | number | boolean | null | Listener>>

/** Creates an element. A function is a listener for the event of its name, `true` an attribute without a value, `null` or `false` no attribute. */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag)
  attribute(element, attributes)
  element.append(...shown(children))
  return element
}

const SVG = "http://www.w3.org/2000/svg"

export function svg<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[Tag] {
  const element = document.createElementNS(SVG, tag)
  attribute(element, attributes)
  element.append(...shown(children))
  return element
}

function attribute(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value)
    else if (value === true) element.setAttribute(name, "")
    else if (value !== null && value !== false) element.setAttribute(name, String(value))
  }
}

function shown(children: readonly Child[]): (Node | string)[] {
  return children.filter((child) => child !== null && child !== false)
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
  return el("bdi", { class: "name" }, name)
}

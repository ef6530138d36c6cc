import { type Address, addressOf } from "../address.ts"
import { pauseAfter } from "../range.ts"
import { el, replaceElement, setText } from "./element.ts"
import { Refusal } from "./gateway.ts"

/** One stay at one address: ends when the reader goes elsewhere, and with it all that was asked for it. */
export interface Visit {
  readonly address: Address
  readonly signal: AbortSignal
}

export type View = (visit: Visit) => HTMLElement

/** A part of a view that is loaded. It shows that it loads, what came of it, or why nothing did, with a way to try again. */
export interface Part {
  readonly element: HTMLElement
  /** Loads it anew; what is shown stays until then. */
  load(): Promise<void>
}

export interface PartOptions {
  /** Null for a part without a heading of its own. */
  readonly title: string | null
  /** What stands beside the title. */
  readonly tools?: HTMLElement
  readonly class?: string
  /** The content; `signal` ends when other content takes its place, or the visit ends. */
  content(signal: AbortSignal): Promise<HTMLElement>
}

export function part(visit: Visit, { title, tools, class: name = "card", content }: PartOptions): Part {
  const place = el("div", { class: "content" }, el("p", { class: "quiet loading" }, "Loading …"))
  const heading =
    title === null && tools === undefined
      ? null
      : el("div", { class: "heading" }, title === null ? null : el("h2", {}, title), tools ?? null)
  const element = el("section", { class: name, "aria-busy": "true", "aria-label": title }, heading, place)
  let turn = 0
  let life = new AbortController()

  async function load(): Promise<void> {
    const mine = ++turn
    const next = new AbortController()
    element.setAttribute("aria-busy", "true")
    try {
      const made = await content(AbortSignal.any([visit.signal, next.signal]))
      if (mine === turn && show(made)) {
        life.abort()
        life = next
      }
    } catch (error) {
      if (visit.signal.aborted) return
      if (mine === turn) show(fault(error, load))
    }
    if (mine === turn) element.removeAttribute("aria-busy")
  }
  /** Whether it was not there before. */
  function show(made: HTMLElement): boolean {
    const before = place.firstElementChild
    if (before === made) return false
    if (before === null) place.append(made)
    else replaceElement(before, made)
    return true
  }
  return { element, load }
}

/** Why something did not work, in words. */
export function faultWords(error: unknown): string {
  return error instanceof Refusal
    ? error.message.replaceAll("`", "")
    : "The console had an error. Reload the page."
}

function fault(error: unknown, again: () => Promise<void>): HTMLElement {
  return el(
    "div",
    { class: "fault", role: "alert" },
    el("p", {}, faultWords(error)),
    el("button", { type: "button", click: () => void again() }, "Try again"),
  )
}

/**
 * Asks again and again while the page is seen, `least_ms` after an answer or later when answers take long. What fails is told
 * beneath, and tried again.
 */
export function poll(visit: Visit, least_ms: number, look: () => Promise<void>): HTMLElement {
  const status = el("p", { class: "quiet poll", role: "status" })
  let timer: ReturnType<typeof setTimeout> | undefined
  let running = false

  async function turn(): Promise<void> {
    if (running || visit.signal.aborted || document.hidden) return
    running = true
    clearTimeout(timer)
    const began_ms = performance.now()
    try {
      await look()
      setText(status, "")
    } catch (error) {
      if (!visit.signal.aborted) setText(status, `${faultWords(error)} Trying again …`)
    }
    running = false
    if (visit.signal.aborted) return
    timer = setTimeout(() => void turn(), pauseAfter(performance.now() - began_ms, least_ms))
  }
  document.addEventListener("visibilitychange", () => void turn(), { signal: visit.signal })
  visit.signal.addEventListener("abort", () => clearTimeout(timer))
  void turn()
  return status
}

/** Writes the address of what is shown without another visit, so that a reload and a link lead here. */
export function noteAddress({ address, signal }: Visit, query: Readonly<Record<string, string>>): void {
  if (!signal.aborted) history.replaceState(null, "", addressOf(address.view, address.id, query))
}

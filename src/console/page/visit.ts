import { type Address, addressOf } from "../fragment.ts"
import { pauseAfter } from "../times.ts"
import { AdminError } from "./admin-api.ts"
import { el, replaceElement, setText } from "./element.ts"

/** One visit to an address. It ends when the user navigates away, which aborts its requests. */
export interface Visit {
  readonly address: Address
  readonly signal: AbortSignal
}

/** A part of a view that loads by itself. It shows the loading state, the content, or the error with a retry button. */
export interface Part {
  readonly element: HTMLElement
  /** Reloads the part; the old content stays until then. */
  load(): Promise<void>
}

interface PartOptions {
  /** Null for a part without a heading. */
  readonly title: string | null
  /** Shown beside the title. */
  readonly tools?: HTMLElement
  readonly class?: string
  /** Loads the content; `signal` aborts when the content is replaced or the visit ends. */
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
  /** Returns whether the content is new. */
  function show(made: HTMLElement): boolean {
    const before = place.firstElementChild
    if (before === made) return false
    if (before === null) place.append(made)
    else replaceElement(before, made)
    return true
  }
  return { element, load }
}

/** The message for an error. */
export function faultWords(error: unknown): string {
  return error instanceof AdminError
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
 * Polls while the page is visible: `least_ms` after a response, or later if responses take long. A failure is shown below and
 * retried.
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

/** Updates the address bar without a new visit, so that a reload or a link shows the same. */
export function noteAddress({ address, signal }: Visit, query: Readonly<Record<string, string>>): void {
  if (!signal.aborted) history.replaceState(null, "", addressOf(address.view, address.id, query))
}

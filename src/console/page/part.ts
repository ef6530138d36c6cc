import { addressOf, type PageAddress, type PageQuery } from "../fragment.ts"
import { pauseAfter } from "../times.ts"
import { faultWords } from "./admin-api.ts"
import { button, type Child, el, replaceElement } from "./element.ts"

/** One visit to an address. It ends when the user navigates away, which aborts its requests. */
export interface Visit {
  readonly address: PageAddress
  readonly signal: AbortSignal
}

/** The content of a page: its title, its tools and what stands below. */
export function view(title: Child, tools: Child, ...content: readonly Child[]): HTMLElement {
  return el("div", el("div.title", el("h1", { tabindex: -1 }, title), tools), ...content)
}

export function section(title: string, ...content: readonly Child[]): HTMLElement {
  return el("section.card", { "aria-label": title }, el("h2", title), ...content)
}

/** A part of a view that loads by itself. It shows its content, and below it the error of the last try with a retry button. */
export interface ViewPart {
  readonly element: HTMLElement
  /** Reloads the part; the old content stays until then. */
  load(): Promise<void>
}

interface PartOptions {
  readonly title?: string | undefined
  /** Shown beside the title. */
  readonly tools?: HTMLElement | undefined
  readonly class?: string
  /** Loads the content; `signal` aborts when the content is replaced or the visit ends. */
  content(signal: AbortSignal): Promise<HTMLElement>
}

export function part(visit: Visit, { title, tools, class: name = "card", content }: PartOptions): ViewPart {
  const place = el("div", el("p.quiet.loading", "Loading …"))
  const fault = el("div.fault", { role: "alert" })
  const heading = title === undefined ? null : el("div.heading", el("h2", title), tools ?? null)
  const inside = [heading, place, fault]
  const element = el("section", { class: name, "aria-busy": "true", "aria-label": title ?? null }, ...inside)
  let turn = 0
  let life = new AbortController()

  async function load(): Promise<void> {
    const mine = ++turn
    const next = new AbortController()
    element.setAttribute("aria-busy", "true")
    try {
      const made = await content(AbortSignal.any([visit.signal, next.signal]))
      if (mine !== turn) return
      fault.replaceChildren()
      const before = place.firstElementChild
      if (before !== null && before !== made) {
        replaceElement(before, made)
        life.abort()
        life = next
      }
    } catch (error) {
      if (visit.signal.aborted || mine !== turn) return
      const again = button("Try again", () => void load())
      fault.replaceChildren(el("p", faultWords(error)), again)
      place.querySelector(".loading")?.remove()
      if (place.childElementCount === 0) place.append(el("div"))
    }
    element.removeAttribute("aria-busy")
  }
  // The content may use what its view defines after this call.
  queueMicrotask(() => void load())
  return { element, load }
}

/** Repeats while the page is visible, `least_ms` after the last time or later. Ends if `look` returns false. */
export function poll(visit: Visit, least_ms: number, look: () => Promise<unknown>): void {
  let timer: ReturnType<typeof setTimeout> | undefined
  let running = false

  async function turn(): Promise<void> {
    if (running || visit.signal.aborted || document.hidden) return
    running = true
    clearTimeout(timer)
    const began_ms = performance.now()
    if ((await look()) === false) return
    running = false
    wait(performance.now() - began_ms)
  }
  function wait(took_ms: number): void {
    if (!visit.signal.aborted) timer = setTimeout(() => void turn(), pauseAfter(took_ms, least_ms))
  }
  document.addEventListener("visibilitychange", () => void turn(), { signal: visit.signal })
  visit.signal.addEventListener("abort", () => clearTimeout(timer))
  wait(0)
}

/** Updates the address bar without a new visit, so that a reload or a link shows the same. */
export function noteAddress({ address, signal }: Visit, query: PageQuery): void {
  if (!signal.aborted) history.replaceState(null, "", addressOf(address.view, address.id, query))
}

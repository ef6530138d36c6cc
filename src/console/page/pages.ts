import { addressOf } from "../address.ts"
import { el } from "./element.ts"

/** Links to older entries and back to the newest; empty for a single page. */
export function pages(
  view: string,
  query: Readonly<Record<string, string>>,
  after: string,
  next: string | null,
): HTMLElement {
  return el(
    "nav",
    { class: "pages", "aria-label": "Pages" },
    after === "" ? null : el("a", { href: addressOf(view, null, query) }, "Newest"),
    next === null ? null : el("a", { href: addressOf(view, null, { ...query, after: next }) }, "Older"),
  )
}

import type { AccountBody } from "../../wire/admin.ts"
import { isNegative, showUsd } from "../amount.ts"
import { addressOf, shortId } from "../fragment.ts"
import { showAgo, showMoment, showUtc } from "../times.ts"
import { failureWords, stateWords } from "../words.ts"
import { ask } from "./admin-api.ts"
import { el, named, setText } from "./element.ts"

/** Small elements that all views share. */

export function usd(text: string | null): HTMLElement {
  if (text === null) return none()
  return el("span", { class: isNegative(text) ? "usd bad" : "usd" }, showUsd(text))
}

/** A time in the local time zone, with UTC in its title. */
export function moment(text: string | null, show: (text: string) => string = showMoment): HTMLElement {
  if (text === null) return none()
  return el("time", { datetime: text, title: showUtc(text) }, show(text))
}

/** A relative time, with the exact time in its title. */
export function ago(text: string | null): HTMLElement {
  return moment(text, (at) => showAgo(at, Date.now()))
}

/** A large figure with its name above and a note below. */
export function tile(name: string, figure: HTMLElement | string, more: string): HTMLElement {
  return el(
    "div",
    {},
    el("dt", {}, name),
    el("dd", { class: "figure" }, figure),
    el("dd", { class: "quiet" }, more),
  )
}

/** A placeholder for a missing value. */
export function none(): HTMLElement {
  return el("span", { class: "quiet none" }, "–")
}

export function callLink(id: string): HTMLElement {
  return el("a", { href: addressOf("calls", id), class: "id", title: id }, shortId(id))
}

const TONES: Readonly<Record<string, string>> = {
  settled: "good",
  active: "good",
  ready: "good",
  open: "busy",
  trying: "busy",
  expired: "bad",
  suspended: "warn",
  revoked: "off",
  released: "off",
}

/** A state as a coloured chip. */
export function chip(word: string, title = stateWords(word), tone = TONES[word] ?? "off"): HTMLElement {
  return el("span", { class: `chip ${tone}`, title: title === word ? null : title }, word)
}

export function failureChip(failure: string): HTMLElement {
  return chip(failure, failureWords(failure), "bad")
}

/** Text with a copy button. */
export function copyable(text: string, label: string): HTMLElement {
  const shown = el("output", { class: "copied", "aria-label": label }, text)
  const button = el("button", { type: "button", click: () => void copy() }, "Copy")
  async function copy(): Promise<void> {
    setText(button, (await copied(text, shown)) ? "Copied" : "Press Ctrl+C")
    setTimeout(() => setText(button, "Copy"), 2_000)
  }
  return el("div", { class: "copy" }, shown, button)
}

/** Browsers disable the clipboard on pages without HTTPS. Then the text is only selected. */
async function copied(text: string, shown: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    getSelection()?.selectAllChildren(shown)
    return false
  }
}

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

/** A row of buttons of which one is selected. */
export function choice<Value extends string>(
  label: string,
  options: readonly (readonly [value: Value, name: string])[],
  chosen: Value,
  choose: (value: Value) => void,
): HTMLElement {
  const buttons = options.map(([value, name]) =>
    el(
      "button",
      { type: "button", "aria-pressed": String(value === chosen), click: (event) => press(event, value) },
      name,
    ),
  )
  function press(event: Event, value: Value): void {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button === event.currentTarget))
    choose(value)
  }
  return el("div", { class: "choice", role: "group", "aria-label": label }, ...buttons)
}

/** Cached account names; null if a name cannot be loaded. */
const known = new Map<string, Promise<string | null>>()

/** A link to an account: its id, then its name when it has loaded. */
export function accountLink(id: string): HTMLElement {
  const place = named(shortId(id))
  const name = known.get(id) ?? nameOf(id)
  known.set(id, name)
  void name.then((found) => {
    if (found !== null) setText(place, found)
  })
  return el("a", { href: addressOf("accounts", id), title: id }, place)
}

/** Updates the cached name of an account. */
export function noteName({ id, name }: AccountBody): void {
  known.set(id, Promise.resolve(name))
}

async function nameOf(id: string): Promise<string | null> {
  try {
    return (await ask<AccountBody>(`/accounts/${id}`)).name
  } catch {
    known.delete(id)
    return null
  }
}

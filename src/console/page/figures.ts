import { addressOf, shortId } from "../address.ts"
import { isNegative, showUsd } from "../amount.ts"
import { showAgo, showMoment, showUtc } from "../moment.ts"
import { failureWords, stateWords } from "../words.ts"
import { el } from "./element.ts"

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

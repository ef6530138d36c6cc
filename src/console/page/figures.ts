import { addressOf, shortId } from "../address.ts"
import { isNegative, showUsd } from "../amount.ts"
import { showAgo, showMoment, showUtc } from "../moment.ts"
import { failureWords, stateWords } from "../words.ts"
import { el } from "./element.ts"

/** The small things that every view shows alike. */

export function usd(text: string | null): HTMLElement {
  if (text === null) return none()
  return el("span", { class: isNegative(text) ? "usd bad" : "usd" }, showUsd(text))
}

/** A time in the reader's zone, with UTC in its title. */
export function moment(text: string | null, show: (text: string) => string = showMoment): HTMLElement {
  if (text === null) return none()
  return el("time", { datetime: text, title: showUtc(text) }, show(text))
}

/** How long ago, with the time itself in the title. */
export function ago(text: string | null): HTMLElement {
  return moment(text, (at) => showAgo(at, Date.now()))
}

/** A figure large, with its name above and more about it below; one of a list of them. */
export function tile(name: string, figure: HTMLElement | string, more: string): HTMLElement {
  return el(
    "div",
    {},
    el("dt", {}, name),
    el("dd", { class: "figure" }, figure),
    el("dd", { class: "quiet" }, more),
  )
}

/** What is not there. */
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

/** A state in a word, whose colour repeats what it says. */
export function chip(word: string, title = stateWords(word), tone = TONES[word] ?? "off"): HTMLElement {
  return el("span", { class: `chip ${tone}`, title: title === word ? null : title }, word)
}

export function failureChip(failure: string): HTMLElement {
  return chip(failure, failureWords(failure), "bad")
}

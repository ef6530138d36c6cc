import type { Static, TObject, TProperties } from "@sinclair/typebox"
import type { AccountBody } from "../../wire/admin.ts"
import { eachOf, type FieldPath, fieldAt, type Unit, valueAt } from "../../wire/field.ts"
import { showCount, showUsd } from "../amount.ts"
import { addressOf, type PageQuery, shortId } from "../fragment.ts"
import { showAgo, showBrief, showDuration, showMoment, showUtc } from "../times.ts"
import { failureWords, stateWords } from "../words.ts"
import { ask } from "./admin-api.ts"
import { button, type Child, el, named, setText } from "./element.ts"

/** Formats of values of the admin API, by their unit. `data` and `time` keep the exact value, by which a table sorts. */

export function none(): HTMLElement {
  return el("span.quiet.none", "–")
}

export function usd(text: string | null): HTMLElement {
  if (text === null) return none()
  // A long amount may break before its point, and nowhere else.
  const [whole = "", fraction = ""] = showUsd(text).split(".")
  const shown = [whole, el("wbr"), fraction && `.${fraction}`]
  return el(text.startsWith("-") ? "data.usd.bad" : "data.usd", { value: text }, ...shown)
}

/** A number of tokens, calls or others. */
export function count(value: number | null, title: string | null = null): HTMLElement {
  return value === null ? none() : el("data", { value, title }, showCount(value))
}

export function duration(ms: number | null, title: string | null = null): HTMLElement {
  return ms === null ? none() : el("data", { value: ms, title }, showDuration(ms))
}

/** A time, with its milliseconds in its title. */
export function moment(text: string | null, show: (text: string) => string = showMoment): HTMLElement {
  return text === null ? none() : el("time", { datetime: text, title: showUtc(text) }, show(text))
}

const FORMATS: Readonly<Record<Exclude<Unit, "time">, (value: string | number) => Child>> = {
  text: (value) => named(String(value)),
  number: (value) => el("data", { value }, String(value)),
  usd: (value) => usd(String(value)),
  count: (value) => count(Number(value)),
  percent: (value) => el("data", { value }, showPercent(Number(value))),
  ms: (value) => duration(Number(value)),
}

function showPercent(value: number): string {
  const sign = value > 0 ? "+" : value < 0 ? "−" : ""
  return `${sign}${Math.abs(value)}%`
}

/** The value of a field as the schema's unit says. */
export function shownValue<P extends TProperties>(
  schema: TObject<P>,
  record: Static<TObject<P>>,
  path: FieldPath<P>,
  showTime: (text: string) => Child = moment,
): Child {
  const value = valueAt(record, path)
  if (Array.isArray(value)) return names(value.map((one) => named(String(one))))
  if (typeof value !== "string" && typeof value !== "number") return none()
  const { unit } = fieldAt(schema, path)
  return unit === "time" ? showTime(String(value)) : FORMATS[unit](value)
}

/** A function that makes entries of a detail view. The schema says their titles, and their units unless a value is given. */
export function entriesOf<P extends TProperties>(schema: TObject<P>, record: Static<TObject<P>>) {
  return eachOf(
    (path: FieldPath<P>, value: Child = shownValue(schema, record, path), note?: string): DetailEntry =>
      note === undefined ? [fieldAt(schema, path).title, value] : [fieldAt(schema, path).title, value, note],
  )
}

/** The same for a list. */
export function brief(text: string | null): HTMLElement {
  return moment(text, (at) => showBrief(at, Date.now()))
}

/** A relative time, with the exact time in its title. */
export function ago(text: string | null): HTMLElement {
  return moment(text, (at) => showAgo(at, Date.now()))
}

const TONES: Readonly<Record<string, string>> = {
  settled: "good",
  active: "good",
  ready: "good",
  open: "busy",
  trying: "busy",
  expired: "bad",
  suspended: "warn",
}

export function chip(word: string, title = stateWords(word), tone = TONES[word] ?? "off"): HTMLElement {
  return el(`span.chip.${tone}`, { title: title === word ? null : title }, word)
}

export function failureChip(failure: string): HTMLElement {
  return chip(failure, failureWords(failure), "bad")
}

/** Several names, links or chips. */
export function names(shown: readonly Child[]): HTMLElement {
  return el("span.names", ...shown)
}

export function callLink(id: string): HTMLElement {
  return el("a.id", { href: addressOf("calls", id), title: id }, shortId(id))
}

/** A link to the calls with this model, key or session. */
export function callsLink(filter: PageQuery, ...shown: readonly Child[]): HTMLElement {
  const title = Object.entries(filter).map(([name, value]) => `Show the calls of the ${name} ${value}`)
  return el("a", { href: addressOf("calls", null, filter), title: title.join(", ") }, ...shown)
}

export function modelLink(model: string): HTMLElement {
  return callsLink({ model }, named(model))
}

/** Cached account names; null if a name cannot be loaded. */
const known = new Map<string, Promise<string | null>>()

/** A link to an account: its id, then its name when it has loaded. */
export function accountLink(id: string): HTMLElement {
  const place = named(shortId(id))
  const name = known.get(id) ?? nameOf(id)
  known.set(id, name)
  void name.then((found) => found !== null && setText(place, found))
  return el("a", { href: addressOf("accounts", id), title: id }, place)
}

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

/** Text with a copy button. Browsers disable the clipboard on pages without HTTPS; then the text is only selected. */
export function copyable(text: string, label: string): HTMLElement {
  const shown = el("output.copied", { "aria-label": label }, text)
  const copy = button("Copy", async () => {
    const is_copied = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    )
    if (!is_copied) getSelection()?.selectAllChildren(shown)
    setText(copy, is_copied ? "Copied" : "Press Ctrl+C")
    setTimeout(() => setText(copy, "Copy"), 2_000)
  })
  return el("div.copy", shown, copy)
}

/** A row of buttons of which one is selected, and its value. */
export function choice<Value extends string>(
  label: string,
  values: readonly Value[],
  first: Value,
  changed: () => void,
  show: (value: Value) => string = (value) => value,
): { readonly element: HTMLElement; readonly value: Value } {
  const buttons = values.map((value) =>
    button(
      show(value),
      ({ currentTarget }) => {
        for (const one of buttons) one.setAttribute("aria-pressed", String(one === currentTarget))
        made.value = value
        changed()
      },
      { "aria-pressed": String(value === first) },
    ),
  )
  const element = el("div.choice", { role: "group", "aria-label": label }, ...buttons)
  const made = { element, value: first }
  return made
}

/** One record: a label, a value and a note each. Entries that are null are left out. */
export function detail(
  kind: "facts" | "tiles" | "percentiles",
  entries: readonly (DetailEntry | null)[],
): HTMLElement {
  const given = entries.filter((entry) => entry !== null)
  return el(
    `dl.${kind}`,
    ...given.map(([label, value, note]) =>
      el("div", el("dt", label), el("dd", value), note === undefined ? null : el("dd.quiet", note)),
    ),
  )
}

type DetailEntry = readonly [label: string, value: Child, note?: string]

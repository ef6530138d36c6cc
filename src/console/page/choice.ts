import { el } from "./element.ts"

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

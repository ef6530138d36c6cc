import { el, setText } from "./element.ts"

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

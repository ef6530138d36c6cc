import axe from "axe-core"
import type { Page } from "playwright-core"

/** What axe-core finds in the page (WCAG and good practice), in words; with `only`, by that rule alone. */
export async function axeFaults(page: Page, only?: string): Promise<string[]> {
  if (!(await page.evaluate<boolean>('"axe" in window'))) await page.evaluate(axe.source)
  // Selectors, and what passes, are read by nobody and take time.
  const options = {
    resultTypes: ["violations"],
    selectors: false,
    ...(only !== undefined && { runOnly: only }),
  }
  return page.evaluate(`axe.run(document, ${JSON.stringify(options)})
    .then(({ violations }) => violations.flatMap(({ id, help, nodes }) => nodes.map(({ html }) => id + ", " + help + ": " + html.slice(0, 200))))`)
}

/** Run in the page, as text: what leaves its card or the window, and words that are broken, in words. */
export const MISPLACED = `(() => {
  const faults = []
  const say = (what, element) => faults.push(what + ": " + element.tagName + "." + element.className + " " + element.textContent.trim().slice(0, 40))
  const root = document.documentElement
  if (root.scrollWidth > root.clientWidth) faults.push("the page scrolls sideways by " + (root.scrollWidth - root.clientWidth))
  const is_seen = (element) => element.getClientRects().length > 0 && !element.closest(".skip, .unseen, svg, canvas, .u-over, .u-under")
  for (const element of document.querySelectorAll("body *")) {
    if (!is_seen(element)) continue
    const { left, right } = element.getBoundingClientRect()
    if (left < -0.5 || right > root.clientWidth + 0.5) say("outside of the window", element)
    const card = element.parentElement?.closest(".card, .tiles > div, dialog, header")
    if (!card) continue
    const outer = card.getBoundingClientRect()
    if (left < outer.left - 0.5 || right > outer.right + 0.5) say("outside of its card", element)
    if (element.matches("td, th, dd, dt, button, a, label") && element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== "inline") say("too long", element)
  }
  const range = document.createRange()
  for (const element of document.querySelectorAll("th, td, dt, button, nav a, h2, .chip")) {
    if (!is_seen(element)) continue
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT)
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      for (const { 0: word, index } of node.data.matchAll(/\\.?[^\\s_.,\\/-]{2,16}/g)) {
        range.setStart(node, index)
        range.setEnd(node, index + word.length)
        const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)))
        if (lines.size > 1) say("broken word " + word, element)
      }
    }
  }
  return [...new Set(faults)]
})()`

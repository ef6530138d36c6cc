/**
 * Run in the page, as text: of every element with text of its own that is seen, how its colour stands out from what is behind it, by
 * WCAG 2.2 (1.4.3); those that are too faint, with their text.
 */
export const FAINT = `(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true })
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1)
    canvas.fillStyle = colour
    canvas.fillRect(0, 0, 1, 1)
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data
    return { red, green, blue, alpha: alpha / 255 }
  }
  const light = ({ red, green, blue }) => {
    const [r, g, b] = [red, green, blue].map((part) => {
      const share = part / 255
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor)
      if (colour.alpha > 0.95) return colour
    }
    return { red: 255, green: 255, blue: 255 }
  }
  const faint = []
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join("")
    if (text === "" || element.closest("[hidden], .unseen, .skip, noscript, svg") || element.matches(":disabled")) continue
    if (element.getClientRects().length === 0) continue
    const style = getComputedStyle(element)
    const [over, under] = [light(rgba(style.color)), light(ground(element))]
    const ratio = (Math.max(over, under) + 0.05) / (Math.min(over, under) + 0.05)
    const is_large = parseInt(style.fontSize) >= 24 || (parseInt(style.fontSize) >= 19 && Number(style.fontWeight) >= 600)
    if (ratio < (is_large ? 3 : 4.5)) faint.push(ratio.toFixed(2) + " " + text.slice(0, 40))
  }
  return faint
})()`

/** Run in the page: what has no name, no label or no order for those who do not see it. */
export const UNNAMED = `(() => {
  const named = (element) =>
    (element.getAttribute("aria-label") ?? "").trim() !== "" ||
    element.textContent.trim() !== "" ||
    (element.labels?.length ?? 0) > 0 ||
    element.hasAttribute("aria-labelledby")
  const faults = []
  const fault = (what, element) => faults.push(what + ": " + element.outerHTML.slice(0, 100))
  for (const element of document.querySelectorAll("a, button, input, select, textarea, dialog, th")) {
    if (!named(element)) fault("no name", element)
  }
  for (const element of document.querySelectorAll("img")) if (!element.hasAttribute("alt")) fault("no alt", element)
  for (const element of document.querySelectorAll("[role=img]")) if (!named(element)) fault("no label", element)
  for (const element of document.querySelectorAll("a")) if (!element.hasAttribute("href")) fault("no address", element)
  const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id)
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) faults.push("twice: " + id)
  for (const element of document.querySelectorAll("[aria-describedby], [aria-labelledby]")) {
    const wanted = element.getAttribute("aria-describedby") ?? element.getAttribute("aria-labelledby")
    if (!document.getElementById(wanted)) fault("describes nothing", element)
  }
  if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1")
  if (document.querySelectorAll("main").length !== 1) faults.push("not one main")
  const levels = [...document.querySelectorAll("h1, h2, h3")].map(({ tagName }) => Number(tagName[1]))
  levels.forEach((level, at) => { if (level > (levels[at - 1] ?? 0) + 1) faults.push("a level left out before heading " + at) })
  if (document.documentElement.lang !== "en" || document.title === "") faults.push("no language or title")
  return faults
})()`

import { readFileSync } from "node:fs"
import type { Cell, Chart, Report, Section, Table } from "./report.ts"

/** The report as one file: its styles, its data and the plotter are in it, so it opens anywhere and loads nothing. */
export function renderPage(report: Report): string {
  const charts: Chart[] = []
  const content = [
    verdictOf(report.verdict),
    `<section class="card figures">${report.tables.map(tableOf).join("")}</section>`,
    ...report.sections.map((section) => sectionOf(section, charts)),
  ]
  const title = escapeText(report.title)
  const facts = report.facts.map((fact) => `<li>${escapeText(fact)}</li>`).join("")
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<style>${fileText("uplot/dist/uPlot.min.css")}${fileText("./page.css")}</style>
</head>
<body>
<header>
<div class="brand">${fileText("../../src/routes/reference/icon.svg")}<span>Tollgate</span></div>
<h1>${title}</h1>
<ul class="facts">${facts}</ul>
</header>
<main>${content.join("\n")}</main>
<script type="application/json" id="charts">${JSON.stringify(charts).replaceAll("<", "\\u003c")}</script>
<script>${fileText("uplot/dist/uPlot.iife.min.js")}</script>
<script>${fileText("./page.js")}</script>
</body>
</html>
`
}

function fileText(name: string): string {
  return readFileSync(Bun.resolveSync(name, import.meta.dir), "utf8")
}

function verdictOf({ good, text, faults, warnings }: Report["verdict"]): string {
  const list = [...faults, ...warnings.map((warning) => `Warning: ${warning}`)]
    .map((line) => `<li>${escapeText(line)}</li>`)
    .join("")
  return `<section class="card verdict${good ? "" : " failed"}"><p>${escapeText(text)}</p>${list === "" ? "" : `<ul>${list}</ul>`}</section>`
}

function sectionOf({ title, text, tables, charts }: Section, all: Chart[]): string {
  const places = charts.map((chart) => {
    const number = all.push(chart) - 1
    return `<div class="chart"><h3>${escapeText(chart.title)}</h3><div id="chart-${number}"></div></div>`
  })
  return `<section class="card"><h2>${escapeText(title)}</h2><p class="how">${escapeText(text)}</p>${tables.map(tableOf).join("")}${
    places.length === 0 ? "" : `<div class="charts">${places.join("")}</div>`
  }</section>`
}

/** A column without anything in it is left out. */
function tableOf({ caption, head, rows }: Table): string {
  const used = head.map((_, at) => at === 0 || rows.some((row) => row[at] !== ""))
  return wholeTable({
    caption,
    head: head.filter((_, at) => used[at]),
    rows: rows.map((row) => row.filter((_, at) => used[at])),
  })
}

function wholeTable({ caption, head, rows }: Table): string {
  const row = (cells: readonly Cell[]) => `<tr>${cells.map(cellOf).join("")}</tr>`
  return `<div class="scroll"><table>${caption === "" ? "" : `<caption>${escapeText(caption)}</caption>`}<thead><tr>${head
    .map((name) => `<th scope="col">${escapeText(name)}</th>`)
    .join("")}</tr></thead><tbody>${rows.map(row).join("")}</tbody></table></div>`
}

function cellOf(cell: Cell): string {
  if (typeof cell === "string") return `<td>${escapeText(cell)}</td>`
  return `<td><span class="${cell.mark}">${escapeText(cell.text)}</span></td>`
}

function escapeText(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
}

import { less, type StatementBody } from "./statement.ts"

/** A statement as a page that can be printed, without scripts and without anything from elsewhere (D106). */

const STYLE = `body{font:14px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#111;background:#fff}
h1{font-size:1.4rem;margin:0 0 .5rem}dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:0 0 1.5rem}
dt{color:#555}dd{margin:0;overflow-wrap:anywhere}table{width:100%;border-collapse:collapse;margin:0 0 1.5rem}
caption{text-align:left;font-weight:600;padding:.3rem 0}th,td{text-align:right;padding:.25rem .4rem;border-bottom:1px solid #ccc}
th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}td{font-variant-numeric:tabular-nums}
thead th{font-weight:500;color:#555}tfoot td,tfoot th{font-weight:600;border-top:2px solid #111}
@media print{body{margin:0;max-width:none}tr{break-inside:avoid}thead{display:table-header-group}}`

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
}

/** Text that no browser reads as markup, without control and bidirectional characters, which would show a false order. */
function escaped(text: string): string {
  return text
    .replace(/[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu, "\ufffd")
    .replace(/[&<>"']/g, (char) => ESCAPES[char] ?? "")
}

type PrintedRow = readonly string[]

function table(caption: string, head: PrintedRow, rows: readonly PrintedRow[], foot: PrintedRow): string {
  const line = (cells: PrintedRow, tag: "td" | "th") =>
    `<tr>${cells.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join("")}</tr>`
  return `<table><caption>${escaped(caption)}</caption><thead>${line(head, "th")}</thead>
<tbody>${rows.map((row) => line(row, "td")).join("\n")}</tbody><tfoot>${line(foot, "td")}</tfoot></table>`
}

/** Prints amounts with as many decimals as the longest of them, and at least two, so that their points align. */
function amountsLike(amounts: readonly string[]): (amount: string) => string {
  const decimals = (amount: string) => amount.split(".")[1] ?? ""
  const most = Math.max(2, ...amounts.map((amount) => decimals(amount).length))
  return (amount) => `${amount.split(".")[0]}.${decimals(amount).padEnd(most, "0")}`
}

export function statementHtml(statement: StatementBody): string {
  const { account_id, account_name, month, from, to, is_final, credits, charges } = statement
  const { opening, credited: added, charged: spent, expired, voided, closing } = statement
  const usd = amountsLike([
    ...[opening, added, spent, expired, voided, closing],
    ...credits.map(({ amount }) => amount),
    ...charges.map(({ charge }) => charge),
  ])
  const facts = [
    ["Account", account_name],
    ["Account id", account_id],
    ["From", from],
    ["To", `${to}${is_final ? "" : " (the month is not over)"}`],
    ["Currency", "USD"],
  ]
  const sums = table(
    "Summary",
    ["", "USD"],
    [
      ["Opening balance", usd(opening)],
      ["Credits", usd(added)],
      ["Charges", usd(less(spent))],
      ["Expired credit", usd(less(expired))],
      ["Credit taken back", usd(less(voided))],
    ],
    ["Closing balance", usd(closing)],
  )
  const credited = table(
    "Credits",
    ["Kind", "Number", "USD"],
    credits.map(({ kind, credits: number, amount }) => [kind, String(number), usd(amount)]),
    ["Sum", "", usd(added)],
  )
  const charged = table(
    "Charges",
    ["Model", "Calls", "Prompt tokens", "Cached", "Output tokens", "USD"],
    charges.map(({ model, charge, ...counts }) => [
      ...[model, counts.calls, counts.prompt_tokens, counts.cached_tokens, counts.completion_tokens].map(
        String,
      ),
      usd(charge),
    ]),
    ["Sum", "", "", "", "", usd(spent)],
  )
  const title = escaped(`Statement ${month}: ${account_name}`)
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title><style>${STYLE}</style></head>
<body><h1>Statement of account, ${escaped(month)}</h1>
<dl>${facts.map(([name = "", value = ""]) => `<dt>${escaped(name)}</dt><dd>${escaped(value)}</dd>`).join("")}</dl>
${sums}
${credits.length === 0 ? "" : credited}
${charges.length === 0 ? "" : charged}
<p>All times are UTC. A charge counts in the month in which its call ended.</p>
</body></html>
`
}

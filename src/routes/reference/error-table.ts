import { catalogue, type ErrorCode } from "../../errors.ts"

/** Every code of the catalogue, in the catalogue's order, as a Markdown table. */
export function errorTable(): string {
  const rows = Object.entries(catalogue).map(
    ([code, { status, cause, cure }]) => `| ${status} | \`${code}\` | ${cause} | ${cure} |`,
  )
  return ["| Status | Code | Cause | What to do |", "|---|---|---|---|", ...rows].join("\n")
}

/** The cause of one code and what to do about it, in Markdown. */
export function adviceText(code: ErrorCode): string {
  const { cause, cure } = catalogue[code]
  return `\`${code}\`: ${cause} **What to do:** ${cure}`
}

/** What `wrk` is told and what it prints: https://github.com/wg/wrk, version 4. */

export interface WrkOutput {
  readonly calls_per_s: number
  readonly p50_ms: number
  readonly p99_ms: number
}

/** A script that posts `body`, with the values of `authorization` in turn. With one of them wrk builds the request once. */
export function wrkScript(authorizations: readonly string[], body: string): string {
  const [first = ""] = authorizations
  const fixed = [
    'wrk.method = "POST"',
    'wrk.headers["content-type"] = "application/json"',
    `wrk.headers["authorization"] = ${luaText(first)}`,
    `wrk.body = ${luaText(body)}`,
  ]
  if (authorizations.length === 1) return `${fixed.join("\n")}\n`
  // Requests are built once for each account, not for each call.
  return `${fixed.join("\n")}
local authorizations = {${authorizations.map(luaText).join(", ")}}
local requests = {}
local at = 0
function init(args)
  for number, authorization in ipairs(authorizations) do
    wrk.headers["authorization"] = authorization
    requests[number] = wrk.format()
  end
end
function request()
  at = at % #requests + 1
  return requests[at]
end
`
}

/** Reads the output of `wrk --latency`; throws when calls failed. */
export function parseWrk(text: string): WrkOutput {
  const failed = /Non-2xx or 3xx responses: (\d+)/.exec(text)?.[1]
  if (failed !== undefined) throw new Error(`wrk: ${failed} answers had another status than 2xx`)
  const broken = /Socket errors: (connect \d+, read \d+, write \d+)/.exec(text)?.[1]
  // Its timeouts are only answers that took longer than 2 s.
  if (broken !== undefined && /[1-9]/.test(broken)) throw new Error(`wrk: socket errors: ${broken}`)
  const rate = /^Requests\/sec:\s+([\d.]+)$/m.exec(text)?.[1]
  if (rate === undefined) throw new Error(`wrk: unexpected output: ${text.slice(0, 500)}`)
  return { calls_per_s: Number(rate), p50_ms: percentileMs(text, 50), p99_ms: percentileMs(text, 99) }
}

const UNITS_MS = { us: 0.001, ms: 1, s: 1000, m: 60_000 } as const

function percentileMs(text: string, percentile: number): number {
  const [, number, unit] = new RegExp(`^\\s+${percentile}%\\s+([\\d.]+)(us|ms|s|m)$`, "m").exec(text) ?? []
  if (unit !== "us" && unit !== "ms" && unit !== "s" && unit !== "m") return Number.NaN
  return Number(number) * UNITS_MS[unit]
}

/** A string of Lua; between quotes: backslashes, quotes and line ends are escaped. */
function luaText(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`
}

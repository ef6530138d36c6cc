import type { Exposure } from "../config/environment.ts"
import type { Paint } from "./paint.ts"

/** The facts that the start message shows about a running gateway. */
export interface BannerFacts extends Exposure {
  /** A chat model for the example call; null if there is none. */
  readonly model: string | null
  /** The command line's command here: `bun run tollgate`. */
  readonly command: string
  /** The demo's key, token and data directory; null without a demo. */
  readonly demo: { readonly key: string; readonly made_token: boolean; readonly data_dir: string } | null
}

const QUESTION = "How is this call billed?"

/** The start message: addresses, an example call that works when pasted, and next steps. */
export function banner(facts: BannerFacts, paint: Paint): string {
  const { demo, model } = facts
  const parts = [
    ...(demo === null
      ? []
      : ["This is the demo: a simulated provider in this process, an account with 10 USD, and an API key."]),
    indented(places(facts, paint)),
    ...(model === null
      ? []
      : [
          demo === null ? "To make a call with one of your keys:" : "To make a first call:",
          curl(facts, model),
        ]),
    ...(facts.admin_token === null ? [] : ["Next, in another terminal:", indented(nextSteps(facts, paint))]),
    ...(demo === null
      ? []
      : [
          "To use real providers, write a tollgate.yaml (see docs/getting-started.md) and use another data directory.",
        ]),
  ]
  return `\n${parts.join("\n\n")}\n`
}

/** The URL of a listener, as seen from this machine. */
export function addressOf(host: string, port: number): string {
  return `http://${reachable(host)}:${port}`
}

type BannerRow = readonly [name: string, value: string]

function places({ host, port, admin, admin_token, demo }: BannerFacts, paint: Paint): string[] {
  const address = addressOf(host, port)
  const admin_url = admin === null ? address : addressOf(admin.host, admin.port)
  const rows: BannerRow[] = [
    ["address", address],
    ...(demo === null ? [] : [["key", demo.key] as const]),
    ["docs", `${address}/docs`],
    ...(admin_token === null ? [] : [["console", `${admin_url}/console`] as const]),
    ["admin token", tokenWords(admin_token, demo)],
  ]
  return columns(rows, paint)
}

function tokenWords(admin_token: string | null, demo: BannerFacts["demo"]): string {
  if (admin_token === null)
    return "none: set TOLLGATE_ADMIN_TOKEN to enable /admin, /console and the command line"
  return demo?.made_token === true
    ? admin_token
    : "the one you set (TOLLGATE_ADMIN_TOKEN, or the file of TOLLGATE_ADMIN_TOKEN_FILE)"
}

function curl({ host, port, demo }: BannerFacts, model: string): string {
  const body = { model, stream: true, messages: [{ role: "user", content: QUESTION }] }
  const bearer = demo === null ? '"Authorization: Bearer $KEY"' : quoted(`Authorization: Bearer ${demo.key}`)
  return [
    "curl -sN",
    quoted(`${addressOf(host, port)}/v1/chat/completions`),
    `-H ${bearer}`,
    `-H ${quoted("Content-Type: application/json")}`,
    `-d ${quoted(JSON.stringify(body))}`,
  ].join(" ")
}

/** The default address of the command line. */
const USUAL = "http://127.0.0.1:8080"
export const USUAL_DATA_DIR = ".tollgate"

function settings(variable: string, value: string, usual: string): string[] {
  return value === usual ? [] : [`export ${variable}=${/^[\w./:[\]-]+$/.test(value) ? value : quoted(value)}`]
}

/** Exports what the command line cannot find by itself. If the demo made the token, it finds both address and token (D52). */
function nextSteps(facts: BannerFacts, paint: Paint): string[] {
  const { host, port, admin, demo, command } = facts
  const admin_url = admin === null ? addressOf(host, port) : addressOf(admin.host, admin.port)
  const address_lines =
    demo?.made_token === true
      ? settings("TOLLGATE_DATA_DIR", demo.data_dir, USUAL_DATA_DIR)
      : settings("TOLLGATE_URL", admin_url, USUAL)
  const steps: BannerRow[] = [
    [`${command} accounts create Acme`, "create an account"],
    [`${command} credit Acme 25`, "credit it with 25 USD"],
    [`${command} keys create Acme`, "create an API key for it"],
    [`${command} calls`, "list calls and their charges"],
  ]
  return [...address_lines, ...columns(steps, paint)]
}

function columns(rows: readonly BannerRow[], paint: Paint): string[] {
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, value]) => `${paint("bold", name.padEnd(width))}  ${value}`)
}

function indented(lines: readonly string[]): string {
  return lines.map((line) => `  ${line}`).join("\n")
}

/** `text` quoted as one word of a POSIX shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** The host for a URL of a listener on `host`, as seen from this machine. */
function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1"
  if (host === "::") return "[::1]"
  return host.includes(":") ? `[${host}]` : host
}

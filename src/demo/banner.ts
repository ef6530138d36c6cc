/** What is worth knowing about a demo that listens. */
export interface DemoFacts {
  readonly host: string
  readonly port: number
  readonly key: string
  readonly admin_token: string
}

const QUESTION = "How is this call billed?"

/** What the demo prints: where it is, what opens it, and a first call that works when pasted. */
export function demoBanner({ host, port, key, admin_token }: DemoFacts): string {
  const address = `http://${reachable(host)}:${port}`
  const body = { model: "demo-small", stream: true, messages: [{ role: "user", content: QUESTION }] }
  const curl = [
    "curl -sN",
    quoted(`${address}/v1/chat/completions`),
    `-H ${quoted(`Authorization: Bearer ${key}`)}`,
    `-H ${quoted("Content-Type: application/json")}`,
    `-d ${quoted(JSON.stringify(body))}`,
  ].join(" ")
  return `
This is the demo: a provider inside this process, an account with 10 USD to begin with, and its key.

  address      ${address}
  key          ${key}
  docs         ${address}/docs
  admin token  ${admin_token}

A first call:

${curl}
`
}

/** One word of a POSIX shell, whatever is in `text`. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** The host part of a URL by which this machine reaches a listener on `host`. */
function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1"
  if (host === "::") return "[::1]"
  return host.includes(":") ? `[${host}]` : host
}

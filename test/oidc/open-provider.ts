import Provider from "oidc-provider"
import { freePort } from "../support/free-port.ts"

export const CLIENT_ID = "tollgate"
export const CLIENT_SECRET = "client-secret-canary-0123456789abcdef"

export interface OpenProvider {
  readonly issuer: string
  stop(): Promise<void>
}

/** Claims beside `sub`, by the name that a person types in at the provider. */
type People = Readonly<Record<string, object>>

/** A real OpenID provider in this process. Anybody may sign in as a login that `people` has, with any password. */
export async function startOpenProvider(redirect_uri: string, people: People): Promise<OpenProvider> {
  const port = freePort()
  // To a browser another site than the gateway at 127.0.0.1.
  const issuer = `http://localhost:${port}`
  const warn = console.warn
  // It says that it keeps everything in memory, with keys of its own.
  console.warn = () => {}
  const provider = new Provider(issuer, {
    clients: [{ client_id: CLIENT_ID, client_secret: CLIENT_SECRET, redirect_uris: [redirect_uri] }],
    scopes: ["openid", "email", "groups"],
    claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
    findAccount: (_: unknown, login: string) =>
      login in people ? { accountId: login, claims: () => ({ sub: login, ...people[login] }) } : undefined,
    ttl: { Interaction: 600, Session: 600, Grant: 600, AccessToken: 600, IdToken: 600 },
    cookies: { keys: ["a key of the tests"] },
    features: { devInteractions: { enabled: true } },
  })
  console.warn = warn
  const listening = Promise.withResolvers<void>()
  const server = provider.listen(port, "127.0.0.1", listening.resolve)
  await listening.promise
  return {
    issuer,
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** The cookies of a browser, for all ports of one host. Paths are not compared, because each cookie has its own name. */
export class CookieJar {
  readonly #cookies = new Map<string, string>()

  /** Asks once, without following a redirect. */
  async ask(url: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers)
    headers.set("cookie", [...this.#cookies].map((pair) => pair.join("=")).join("; "))
    const response = await fetch(url, { redirect: "manual", ...init, headers })
    for (const line of response.headers.getSetCookie()) {
      const [pair = ""] = line.split(";")
      const at = pair.indexOf("=")
      this.#cookies.set(pair.slice(0, at), pair.slice(at + 1))
    }
    return response
  }

  get(name: string): string | undefined {
    return this.#cookies.get(name)
  }

  set(name: string, value: string): void {
    this.#cookies.set(name, value)
  }
}

/** Signs in as `login` at the provider's pages, up to the address that it sends the browser back to. */
export async function returnAddress(jar: CookieJar, begin: string, login: string): Promise<string> {
  let response = await jar.ask(begin)
  for (let steps = 0; steps < 10; steps++) {
    const location = response.headers.get("location")
    if (location !== null) {
      const next = new URL(location, response.url)
      if (next.pathname === "/admin/oidc/callback") return next.href
      response = await jar.ask(next.href)
      continue
    }
    const html = await response.text()
    const [, action] = /<form[^>]* action="([^"]+)"/.exec(html) ?? []
    if (action === undefined) throw new Error(`the provider has no form: ${response.status} ${html}`)
    const prompt = /name="prompt" value="(\w+)"/.exec(html)?.[1] ?? ""
    const body = new URLSearchParams({ prompt, login, password: "any" })
    response = await jar.ask(new URL(action, response.url).href, { method: "POST", body })
  }
  throw new Error("the provider redirects for ever")
}

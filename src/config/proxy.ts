import { BlockList, isIP } from "node:net"
import { hostOf } from "../wire/host.ts"
import { LOOPBACK } from "./environment.ts"
import { PROXY, PROXY_EXPECTED } from "./schema.ts"
import type { Environ, FaultReport } from "./values.ts"

/** The choice of an upstream's proxy (D59). */

export interface ProxySettings {
  /** The `proxy` of the whole file; undefined if it has none. */
  readonly common: string | undefined
  readonly env: Environ
  /** For faults of variables. */
  readonly report: FaultReport
}

/**
 * The proxy of an upstream: its own, otherwise that of the file, otherwise that of the environment. `NO_PROXY` exempts from the
 * last two. Null if there is none. Loopback addresses have no proxy unless the upstream itself sets one.
 */
export function proxyOf(base_url: string, own: string | undefined, { common, env, report }: ProxySettings) {
  const proxy_value = own ?? common
  if (proxy_value === "none" || !URL.canParse(base_url)) return null
  if (own !== undefined) return own
  const url = new URL(base_url)
  const hostname = hostOf(url)
  if (LOOPBACK.test(hostname) || isExempt(url, hostname, variable("no_proxy", env) ?? "")) return null
  if (common !== undefined) return common
  const name = url.protocol === "https:" ? "https_proxy" : "http_proxy"
  const found = variable(name, env)
  if (found === undefined) return null
  const proxy = found.includes("://") ? found : `http://${found}`
  if (!PROXY.test(proxy) || !URL.canParse(proxy)) report(name.toUpperCase(), PROXY_EXPECTED)
  return proxy
}

/** The secrets in a proxy's URL, which clients must not see. */
export function proxySecrets(proxy: string | null): readonly string[] {
  if (proxy === null || !URL.canParse(proxy)) return []
  const { password } = new URL(proxy)
  return password === "" ? [] : [password, decoded(password)]
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** An environment variable, in lower case or in capitals; curl takes them in this order too. An empty one is unset. */
function variable(name: string, env: Environ): string | undefined {
  return env[name] || env[name.toUpperCase()] || undefined
}

/** True if the list has the host: as `*`, a name (with its subdomains), an address or a range, and its port. */
function isExempt(url: URL, hostname: string, list: string): boolean {
  const port = url.port || (url.protocol === "https:" ? "443" : "80")
  return list.split(",").some((item) => {
    const entry = item.trim().toLowerCase()
    if (entry === "" || entry === "*") return entry === "*"
    if (entry.includes("/")) return isInRange(hostname, entry)
    const [, host = "", only = port] =
      /^\[?(.*?)\]?(?::(\d+))?$/.exec(isIP(entry) === 6 ? `[${entry}]` : entry) ?? []
    const name = host.replace(/^\*?\./, "")
    return only === port && (hostname === name || (isIP(hostname) === 0 && hostname.endsWith(`.${name}`)))
  })
}

function isInRange(hostname: string, range: string): boolean {
  const [network = "", bits = ""] = range.split("/")
  const family = isIP(hostname) === 6 ? "ipv6" : "ipv4"
  if (isIP(hostname) === 0 || isIP(hostname) !== isIP(network) || !/^\d{1,3}$/.test(bits)) return false
  if (Number(bits) > (family === "ipv6" ? 128 : 32)) return false
  const block = new BlockList()
  block.addSubnet(network, Number(bits), family)
  return block.check(hostname, family)
}

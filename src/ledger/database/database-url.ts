/** `scheme://user:password@`, the hosts, the rest. */
const PARTS = /^(postgres(?:ql)?:\/\/(?:[^/?]*@)?)([^/?]*)(.*)$/
const ATTRIBUTES = "target_session_attrs"

const SSL_MODES: readonly string[] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
/** Parameters of libpq that the drivers ignore. */
const SSL_FILES = ["sslrootcert", "sslcert", "sslkey"] as const

export function databaseUrlFault(url: string): string | null {
  const urls = hostUrls(url)
  if (urls.length === 0 || /\s/.test(url) || !urls.every((text) => URL.canParse(text))) {
    return "a URL such as postgres://user:password@host:5432/database"
  }
  if (urls.some((text) => new URL(text).hostname.startsWith("["))) {
    return "a URL with host names or IPv4 addresses: postgres.js cannot read an IPv6 address"
  }
  const [parameters] = urls.map((text) => new URL(text).searchParams)
  const mode = parameters?.get("sslmode") ?? "disable"
  if (!SSL_MODES.includes(mode)) return `a URL whose sslmode is one of ${SSL_MODES.join(", ")}`
  const file = SSL_FILES.find((name) => parameters?.has(name) && parameters.get(name) !== "system")
  if (file !== undefined)
    return `a URL without ${file}: NODE_EXTRA_CA_CERTS names the file of your own authority, and client certificates are not supported`
  const wanted = urls.map((text) => new URL(text).searchParams.get(ATTRIBUTES))
  const is_known = wanted.every((word) => word === null || word === "primary" || word === "read-write")
  return is_known ? null : `a URL whose ${ATTRIBUTES} is primary or read-write`
}

/** True if the URL asks for the primary among its hosts: it names several, or says `target_session_attrs`. */
export function asksForPrimary(url: string): boolean {
  const [first, ...others] = hostUrls(url)
  return others.length > 0 || (first !== undefined && new URL(first).searchParams.has(ATTRIBUTES))
}

/** The URL of each host alone, in their order, without `target_session_attrs`. */
export function singleHosts(url: string): URL[] {
  return hostUrls(url).map((text) => {
    const alone = new URL(text)
    alone.searchParams.delete(ATTRIBUTES)
    return alone
  })
}

function hostUrls(url: string): string[] {
  const [, before = "", hosts, after = ""] = PARTS.exec(url) ?? []
  return hosts === undefined ? [] : hosts.split(",").map((host) => before + host + after)
}

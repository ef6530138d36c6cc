import { X509Certificate } from "node:crypto"
import { BlockList, isIP } from "node:net"
import type { Auth, Endpoint, Preset } from "../presets/preset.ts"
import { anyErrors, presetAt, presets, presetsOfHost } from "../presets/presets.ts"
import { hostOf, unescaped } from "../wire/host.ts"
import { folded, isPath } from "../wire/paths.ts"
import type { Family, Upstream } from "./config.ts"
import { LOOPBACK } from "./environment.ts"
import type { FileUpstream } from "./file.ts"
import { UpstreamSettings } from "./file-upstream.ts"
import { decoded, PROXY, PROXY_EXPECTED } from "./schema.ts"
import { type Environ, type FaultReport, under, withoutSlashes } from "./values.ts"

export function upstreamOf(
  name: string,
  upstream: FileUpstream,
  proxies: ProxySettings,
  report: FaultReport,
): Upstream {
  const { headers, set } = upstream
  const { auth, query, drop, idle_connection_ms, ...taken } = filled(upstream, report)
  const settings = decoded(UpstreamSettings, upstream)
  const keys = keysOf(upstream, report)
  checkRequest(upstream, report)
  const is_direct = upstream.transport === "direct"
  if (is_direct && upstream.proxy !== undefined && upstream.proxy !== "none")
    report("transport", "fetch, because direct supports no proxy")
  const proxy = is_direct ? null : proxyOf(taken.base_url, upstream.proxy, proxies)
  return {
    name,
    ...taken,
    ...settings,
    keys,
    auth: authOf(auth),
    headers,
    query: new URLSearchParams(query).toString(),
    edits: Object.keys(set).length + drop.length === 0 ? null : { set, drop },
    secrets: [...secretsOf(keys, { ...headers, ...query }), ...proxySecrets(proxy)],
    idle_connection_ms: settings.idle_connection_ms ?? idle_connection_ms,
    transport: upstream.transport ?? (proxy === null ? "direct" : "fetch"),
    proxy,
    tls: tlsOf(upstream.tls, under(report, "tls")),
  }
}

/** A header that can be added: in lower case, and none that frames the request or is the gateway's own (D81). */
const HEADER =
  /^(?!(?:host|connection|content-length|content-type|transfer-encoding|accept-encoding|x-request-id)$)[!#$%&'*+.^_`|~0-9a-z-]{1,64}$/

/** Fields that decide what a call can cost, from which the hold was computed (D12). */
const COSTLY = new Set(
  [
    "model",
    "messages",
    "input",
    "prompt",
    "system",
    "stream",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "service_tier",
  ].map(folded),
)

function checkRequest({ headers, set, drop = [] }: FileUpstream, report: FaultReport): void {
  for (const name of Object.keys(headers))
    if (!HEADER.test(name))
      report(`headers.${name}`, "a lower-case header name other than those that the gateway sets itself")
  const fields = [...Object.keys(set).map((field) => ["set", field]), ...drop.map((field) => ["drop", field])]
  for (const [key = "", field = ""] of fields) {
    if (!isPath(field)) report(key, `a dotted field, such as provider.sort, instead of ${field}`)
    else if (COSTLY.has(folded(field.split(".", 1)[0] ?? "")))
      report(key, `no change of ${field}, which decides what a call can cost`)
  }
}

function authOf(auth: Auth): Upstream["auth"] {
  if (auth === "bearer") return { header: "authorization", prefix: "Bearer " }
  return { header: typeof auth === "string" ? auth : auth.header.toLowerCase(), prefix: "" }
}

/** A shorter value of a header or the query is no secret, and may be a word that messages have too. */
const SECRET_CHARACTERS = 16

function secretsOf(keys: Upstream["keys"], values: Readonly<Record<string, string>>): readonly string[] {
  const long = Object.values(values).filter((value) => value.length >= SECRET_CHARACTERS)
  return [...keys.flatMap(({ api_key }) => api_key ?? []), ...long]
}

/** The keys of an upstream: those of a list, or the only one. A key without a name is called by its place. */
function keysOf({ api_key, keys }: FileUpstream, report: FaultReport): Upstream["keys"] {
  if (keys !== undefined && api_key !== undefined) report("", "either api_key or keys")
  const [first, ...others] = (keys ?? []).map((key, at) => ({ ...key, name: key.name ?? String(at + 1) }))
  if (first === undefined) return [{ name: "", api_key: api_key ?? null, weight: 1 }]
  if (new Set([first, ...others].map(({ name }) => name)).size <= others.length)
    report("keys", "a name of its own for each key")
  return [first, ...others]
}

/** Certificates that TLS can use. No fault shows a key. */
function tlsOf(tls: FileUpstream["tls"], report: FaultReport): Upstream["tls"] {
  const { ca = null, cert = null, key = null } = tls
  if (ca === null && cert === null && key === null) return null
  if ((cert === null) !== (key === null)) report("", "both cert and key, or neither")
  for (const [name, pem] of Object.entries({ ca, cert })) {
    if (pem !== null && !isCertificate(pem)) report(name, "a certificate in PEM")
  }
  return { ca, cert, key }
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).subject !== undefined
  } catch {
    return false
  }
}

/** An upstream of the file, completed by its preset (D83). The file overrides the preset. */

type UpstreamDefaults = Pick<
  Upstream,
  "preset" | "family" | "base_url" | "usage" | "errors" | "idle_connection_ms"
> & {
  readonly auth: Auth
  readonly query: Readonly<Record<string, string>>
  readonly drop: readonly string[]
}

export function filled(section: FileUpstream, report: FaultReport): UpstreamDefaults {
  const named = presetOf(section)
  const preset = named === null ? NONE : named.preset
  const family = familyOf(section, named?.name ?? null, preset, report)
  const endpoint = preset[family] ?? null
  const unasked = preset.stream_usage === "unasked" ? ["stream_options"] : []
  return {
    preset: named === null ? null : { name: named.name, from: named.from },
    family,
    base_url: addressOf(section, named?.name ?? null, endpoint, report),
    auth: section.auth ?? endpoint?.auth ?? (family === "chat" ? "bearer" : "x-api-key"),
    query: { ...preset.query, ...section.query },
    drop: section.drop ?? [...unasked, ...(preset.drop ?? [])],
    usage: section.usage ?? preset.usage ?? "default",
    errors: preset.errors ?? anyErrors,
    idle_connection_ms: preset.idle_connection_ms ?? null,
  }
}

const NONE: Preset = { hosts: [] }

/** The preset of `provider`; otherwise the one whose address this is, if it offers the family. */
function presetOf({ provider, base_url = "", family }: FileUpstream) {
  const name = provider ?? presetAt(base_url)
  const preset = name === null ? undefined : presets[name]
  if (name === null || preset === undefined) return null
  if (provider !== undefined) return { name, preset, from: "provider" } as const
  return family !== undefined && preset[family] === undefined
    ? null
    : ({ name, preset, from: "base_url" } as const)
}

function familyOf(
  { family, base_url = "" }: FileUpstream,
  name: string | null,
  preset: Preset,
  report: FaultReport,
): Family {
  const offered = families.filter((each) => preset[each] !== undefined)
  const taken = family ?? offered[0]
  if (taken === undefined) report("family", `chat or messages${orProvider(base_url)}`)
  else if (name !== null && !offered.includes(taken))
    report("family", `${offered.join(" or ")}, because ${name} offers no other`)
  return taken ?? "chat"
}

const families = ["chat", "messages"] as const

/** A hint for a host that several presets share, or whose path decides. */
function orProvider(base_url: string): string {
  const names = presetsOfHost(base_url)
  return names.length === 0 ? "" : `, or provider: ${names.join(" or ")}, which has this host`
}

/** A word in the address of a preset that the operator replaces, such as REGION. */
const OPERATORS_OWN = /[A-Z]/

/** The `base_url` of the file, with the preset's path if it has none; otherwise the preset's address. */
function addressOf(
  { base_url }: FileUpstream,
  name: string | null,
  endpoint: Endpoint | null,
  report: FaultReport,
): string {
  const example = endpoint !== null && OPERATORS_OWN.test(endpoint.origin) ? endpoint.origin : null
  const origin = base_url ?? (example === null ? endpoint?.origin : undefined)
  if (origin === undefined) {
    if (example !== null)
      report("base_url", `your own address, such as ${example}, because ${name} has no common address`)
    // A provider that does not offer the family is reported there.
    else if (name === null) report("base_url", "an http or https URL without credentials, query or fragment")
    return ""
  }
  const given = withoutSlashes(origin)
  if (!URL.canParse(given)) report("base_url", "a URL")
  else if (new URL(given).pathname === "/" && endpoint !== null) {
    if (endpoint.path !== null) return given + endpoint.path
    report("base_url", `a URL with the path of your account or project, such as ${endpoint.origin}`)
  }
  return given
}

/** The choice of an upstream's proxy (D59). */

interface ProxySettings {
  /** The `proxy` of the whole file; undefined if it has none. */
  readonly common: string | undefined
  readonly env: Environ
  /** For faults of variables. */
  readonly report: FaultReport
}

/** The upstream's own proxy, else the file's, else the environment's, which `NO_PROXY` limits; null for none. */
function proxyOf(base_url: string, own: string | undefined, { common, env, report }: ProxySettings) {
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
function proxySecrets(proxy: string | null): readonly string[] {
  if (proxy === null || !URL.canParse(proxy)) return []
  const { password } = new URL(proxy)
  return password === "" ? [] : [password, unescaped(password)]
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

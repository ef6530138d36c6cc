import { X509Certificate } from "node:crypto"
import type { Auth } from "../presets/preset.ts"
import { folded, isPath } from "../wire/paths.ts"
import type { Upstream } from "./config.ts"
import type { FileUpstream } from "./file.ts"
import { UpstreamSettings } from "./file-upstream.ts"
import { type ProxySettings, proxyOf, proxySecrets } from "./proxy.ts"
import { decoded } from "./schema.ts"
import { filled } from "./upstream-preset.ts"
import { type FaultReport, under } from "./values.ts"

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

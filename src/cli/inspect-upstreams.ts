import type { Config, Credential, Upstream } from "../config/config.ts"
import { nextId } from "../id.ts"
import { errorCode } from "../ledger/database/database-errors.ts"
import { presets } from "../presets/presets.ts"
import { meaningOf } from "../upstream/account-errors.ts"
import { requestHeaders } from "../upstream/headers.ts"
import { sessionOf } from "../upstream/http/fetch.ts"
import { Opening, originOf } from "../upstream/http/opening.ts"
import { objectOf, parseJson } from "../wire/usage.ts"
import { callUpstream } from "./call-upstream.ts"
import { type Finding, type FindingVerdict, finding } from "./finding.ts"
import { keyVerdict, LATER, misplacedPath, quotedMessage } from "./provider-words.ts"

/** Checks each upstream with each key (D84). `calls`: also makes one call for each of its models. */
export async function inspectUpstreams(config: Config, calls: boolean): Promise<readonly Finding[]> {
  const each = config.upstreams.flatMap((upstream) => upstream.keys.map((key) => [upstream, key] as const))
  const findings = await Promise.all(
    each.map(async ([upstream, key]) => {
      const what =
        key.name === "" ? `upstream ${upstream.name}` : `upstream ${upstream.name}, key ${key.name}`
      const unreachable = await connect(upstream)
      const verdict = await (unreachable === null
        ? probe(upstream, key, config)
        : notReachable(upstream, unreachable))
      const called = calls && unreachable === null ? await callUpstream(what, upstream, key, config) : []
      return [finding(what, withPreset(verdict, upstream)), ...called]
    }),
  )
  return findings.flat()
}

/** Names the preset of an upstream too, and the reason for it (D83). */
function withPreset(verdict: FindingVerdict, { preset }: Upstream): FindingVerdict {
  const by = preset?.from === "provider" ? "provider" : "the host of base_url"
  const words =
    preset === null ? "no provider of docs/providers.md has this address" : `preset ${preset.name}, by ${by}`
  if (typeof verdict === "string") return `${verdict}; ${words}`
  return [`${verdict[0]}; ${words}`, verdict[1]]
}

/** Opens a connection, to the proxy if there is one, and closes it. Returns the reason if it fails, otherwise null. */
async function connect({ base_url, proxy, timeouts, tls }: Upstream): Promise<string | null> {
  const origin = originOf(new URL(proxy ?? base_url), tls)
  const { promise, resolve } = Promise.withResolvers<string | null>()
  new Opening(origin, timeouts.connect_ms, {
    open(socket) {
      socket.terminate()
      resolve(null)
    },
    fail: ({ code }) => resolve(code),
  })
  return promise
}

function notReachable(upstream: Upstream, code: string): FindingVerdict {
  const { name, timeouts } = upstream
  const late = code === "CONNECT_TIMEOUT"
  const found = late
    ? `no connection within ${timeouts.connect_ms / 1_000} s`
    : unreachableWords(upstream, code)
  if (/CERT|SELF_SIGNED|UNABLE_TO|ALTNAME/.test(code))
    return [
      found,
      `Set upstreams.${name}.tls.ca to the authority that signed its certificate, or correct base_url.`,
    ]
  if (/EPROTO|SSL/.test(code) && upstream.proxy === null)
    return [
      found,
      `The server does not speak TLS there: write http:// in upstreams.${name}.base_url if that is right, or correct its port.`,
    ]
  return [found, addressFix(upstream)]
}

function unreachableWords({ base_url, proxy }: Upstream, code: string): string {
  if (code !== "ENOTFOUND") return `not reachable (${code})`
  return `the host name ${new URL(proxy ?? base_url).hostname} is unknown (${code})`
}

function addressFix({ name, proxy }: Upstream): string {
  if (proxy === null) return `Correct upstreams.${name}.base_url, or check the network and the firewall.`
  return `Correct the proxy (upstreams.${name}.proxy, proxy or HTTPS_PROXY) or upstreams.${name}.base_url.`
}

const PROBE_MS = 10_000

/** Requests the path that the preset names, or the list of models, with the key. */
async function probe(upstream: Upstream, key: Credential, config: Config): Promise<FindingVerdict> {
  const { family, secrets, errors } = upstream
  const versions = Object.fromEntries(config.vendors.map((vendor) => [`${vendor}-version`, "2023-06-01"]))
  const headers = requestHeaders(upstream, key, nextId(), false, family === "chat" ? null : versions)
  try {
    const answer = await sessionOf(upstream).fetch(probeUrl(upstream), {
      headers,
      redirect: "manual",
      signal: AbortSignal.timeout(PROBE_MS),
    })
    const { status } = answer
    const text = await answer.text()
    if (status === 401 || status === 403 || meaningOf(status, text, errors) === "account")
      return keyVerdict(upstream, key, status, text)
    if (status === 429) return "reachable, but the key is rate-limited now"
    if (status >= 500)
      return [`answers with an error (status ${status})${quotedMessage(text, secrets)}`, LATER]
    if (status < 300)
      return `reachable, ${acceptedWords(upstream, key, text)}${missingWords(text, upstream, config)}`
    const unlisted = `reachable (status ${status}), but it has no model list, so the key was not tested`
    return (status === 404 ? misplacedPath(upstream) : null) ?? unlisted
  } catch (error) {
    const late = error instanceof Error && error.name === "TimeoutError"
    const found = late ? `did not answer within ${PROBE_MS / 1_000} s` : `not reachable (${errorCode(error)})`
    return [found, addressFix(upstream)]
  }
}

/** The meaning of a success for the key. Without a preset, the list may be public. */
function acceptedWords(upstream: Upstream, { api_key }: Credential, text: string): string {
  const is_named = upstream.preset !== null
  if (!is_named && listIn(text) === null)
    return `but its answer to GET /${probePath(upstream)} is not a list of models: check base_url`
  if (api_key === null) return "without a key"
  return is_named
    ? "and accepts the key"
    : "and lists its models, but the list may be public; --call tests the key"
}

function endpointOf({ preset, family }: Upstream) {
  return presets[preset?.name ?? ""]?.[family]
}

function probePath(upstream: Upstream): string {
  return endpointOf(upstream)?.probe ?? (upstream.family === "chat" ? "models" : "v1/models")
}

function probeUrl(upstream: Upstream): string {
  const url = new URL(probePath(upstream), `${upstream.base_url}/`)
  url.search = upstream.query
  return url.href
}

/** The entries of a list of models; null if the text is none. */
function listIn(text: string): readonly unknown[] | null {
  const data: unknown = objectOf(parseJson(text)).data
  return Array.isArray(data) ? data : null
}

/** The models of this upstream that are not in its list, in words. Some lists add a vendor or a version to a name. */
function missingWords(text: string, upstream: Upstream, { models }: Config): string {
  if (endpointOf(upstream)?.unlisted === true) return ""
  const listed = (listIn(text) ?? []).map((entry) => objectOf(entry).id)
  const ids = listed.filter((id) => typeof id === "string")
  if (ids.length === 0) return ""
  const used = models.flatMap(({ routes }) => routes).filter((route) => route.upstream.name === upstream.name)
  const missing = new Set(used.map(({ model }) => model)).values()
  const unknown = [...missing].filter(
    (model) => !ids.some((id) => id === model || id.endsWith(`/${model}`) || id.startsWith(`${model}:`)),
  )
  return unknown.length === 0 ? "" : `; it does not list ${unknown.join(", ")}`
}

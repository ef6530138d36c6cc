import { X509Certificate } from "node:crypto"
import type { Upstream } from "./config.ts"
import type { ConfigFile } from "./file.ts"
import { ms, type Report, withoutSlashes } from "./values.ts"

/** Reads one upstream of the file. */
export function upstreamOf(
  name: string,
  upstream: ConfigFile["upstreams"][string],
  report: Report,
): Upstream {
  const { family, base_url, api_key, usage, timeouts, idle_connection, on_disconnect } = upstream
  if (!URL.canParse(base_url)) report(`upstreams.${name}.base_url`, "a URL")
  return {
    name,
    family,
    base_url: withoutSlashes(base_url),
    api_key: api_key ?? null,
    usage,
    timeouts: {
      connect_ms: ms(timeouts.connect),
      first_byte_ms: ms(timeouts.first_byte),
      idle_ms: ms(timeouts.idle),
      total_ms: ms(timeouts.total),
    },
    idle_connection_ms: idle_connection === undefined ? null : ms(idle_connection),
    tls: tlsOf(upstream.tls, `upstreams.${name}.tls`, report),
    on_disconnect: {
      stream: on_disconnect.stream,
      json: on_disconnect.json,
      drain_for_ms: ms(on_disconnect.drain_for),
    },
  }
}

/** Certificates that TLS can use. No fault shows a key. */
function tlsOf(tls: ConfigFile["upstreams"][string]["tls"], path: string, report: Report): Upstream["tls"] {
  const { ca = null, cert = null, key = null } = tls
  if (ca === null && cert === null && key === null) return null
  if ((cert === null) !== (key === null)) report(path, "both cert and key, or neither")
  for (const [name, pem] of Object.entries({ ca, cert })) {
    if (pem !== null && !isCertificate(pem)) report(`${path}.${name}`, "a certificate in PEM")
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

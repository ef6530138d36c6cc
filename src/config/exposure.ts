import type { Config } from "./config.ts"
import { ConfigError } from "./error.ts"

/** Where a gateway listens, and the token that guards `/admin` there. */
export interface Exposure {
  readonly host: string
  readonly port: number
  readonly admin: Config["admin"]
  readonly admin_token: string | null
}

/** Loopback addresses. */
const LOOPBACK = /^(?:localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1)$/

/**
 * Throws a `ConfigError` if other machines could reach the gateway and no token is set, or if the admin listener has the same
 * port as the public one (D39).
 */
export function checkExposure({ host, port, admin, admin_token }: Exposure): void {
  if (admin_token === null && !LOOPBACK.test(host)) throw refusal("HOST", WITHOUT_TOKEN)
  if (admin === null) return
  if (admin_token === null && !LOOPBACK.test(admin.host)) throw refusal("admin.host", WITHOUT_TOKEN)
  if (admin.port === port && port !== 0) throw refusal("admin.port", "a port other than PORT")
}

const WITHOUT_TOKEN =
  "a loopback address such as 127.0.0.1, unless TOLLGATE_ADMIN_TOKEN is set to at least 16 characters"

function refusal(path: string, expected: string): ConfigError {
  return new ConfigError([{ path, expected }])
}

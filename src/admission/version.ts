import { GatewayError } from "../errors.ts"

/** A request of the messages-style family: the vendor, and the date of its API version (D21). */
export interface VendorVersion {
  readonly vendor: string
  /** A calendar date, `2023-06-01`. */
  readonly version: string
  /** The value of `<vendor>-beta` as the client sent it; null when there is none. */
  readonly beta: string | null
}

const DATE = /^\d{4}-\d{2}-\d{2}$/
const MAX_BETA_CHARS = 2048
const PRINTABLE = /^[\x20-\x7e]*$/

/** Whether any configured vendor's version header is there. */
export function hasVersionHeader(headers: Headers, vendors: readonly string[]): boolean {
  return vendors.some((vendor) => headers.has(versionHeader(vendor)))
}

/**
 * The version that a request asks for. On a vendor's path it is that vendor's header; on the plain path (`pathVendor`
 * null), the header of exactly one configured vendor. Throws `invalid_request`, with the header's name as `param`, if
 * it is missing, doubled, or not a calendar date. The result is safe to send on as a header.
 */
export function vendorVersion(
  headers: Headers,
  vendors: readonly string[],
  pathVendor: string | null,
): VendorVersion {
  const vendor = pathVendor ?? theOneVendor(headers, vendors)
  const name = versionHeader(vendor)
  const version = headers.get(name)
  if (version === null)
    throw invalid(name, `The ${name} header is required. Set it to a date such as 2023-06-01.`)
  if (!isCalendarDate(version))
    throw invalid(name, `The ${name} header must be one date, such as 2023-06-01.`)
  return { vendor, version, beta: betaOf(headers, vendor) }
}

/** What is forwarded of it: the version, and the betas if any (D22). */
export function versionHeaders({ vendor, version, beta }: VendorVersion): Record<string, string> {
  const sent = { [versionHeader(vendor)]: version }
  return beta === null ? sent : { ...sent, [`${vendor}-beta`]: beta }
}

function theOneVendor(headers: Headers, vendors: readonly string[]): string {
  const named = vendors.filter((vendor) => headers.has(versionHeader(vendor)))
  const [vendor, second] = named
  if (vendor === undefined) {
    const names = vendors.map(versionHeader)
    throw invalid(
      names[0] ?? "version",
      `A version header is required: ${names.join(" or ") || "no vendor is configured"}.`,
    )
  }
  if (second !== undefined) {
    throw invalid(
      versionHeader(second),
      `Send only one version header, not ${named.map(versionHeader).join(" and ")}.`,
    )
  }
  return vendor
}

function betaOf(headers: Headers, vendor: string): string | null {
  const name = `${vendor}-beta`
  const beta = headers.get(name)
  if (beta === null || beta === "") return null
  if (beta.length > MAX_BETA_CHARS || !PRINTABLE.test(beta)) {
    throw invalid(name, `The ${name} header must be at most ${MAX_BETA_CHARS} printable ASCII characters.`)
  }
  return beta
}

/** A day that exists: 2024-02-29 does, 2023-02-29 does not. */
function isCalendarDate(text: string): boolean {
  if (!DATE.test(text)) return false
  const time_ms = Date.parse(`${text}T00:00:00Z`)
  return !Number.isNaN(time_ms) && new Date(time_ms).toISOString().startsWith(text)
}

function versionHeader(vendor: string): string {
  return `${vendor}-version`
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError("invalid_request", { param, message })
}

import { type GatewayError, idHeaders } from "../errors.ts"

/** The headers of an answer that a page of another origin may read. */
const EXPOSED = "x-request-id, request-id, retry-after, x-should-retry"
/** Seconds for which a browser may cache a preflight. */
const MAX_AGE_S = 600
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~, \t-]{1,1024}$/

const OPERATORS = ["/metrics", "/admin", "/console"]

/** True if a path is for operators: no page of another origin may ever call it (D40). */
export function isForOperators(path: string): boolean {
  return OPERATORS.some((place) => path === place || path.startsWith(`${place}/`))
}

/**
 * The answer to a preflight from an allowed origin. It allows all requested headers, and the path's methods, which are
 * read from `fault`, its 405 to `OPTIONS`. Null for any other request, and for a path that does not exist.
 */
export function preflightAnswer(
  { method, headers }: Request,
  fault: GatewayError,
  origins: readonly string[],
  request_id: string,
): Response | null {
  const methods = fault.detail.headers?.allow
  const is_preflight = method === "OPTIONS" && headers.has("access-control-request-method")
  if (methods === undefined || !is_preflight || originOf(headers, origins) === null) return null
  const requested = headers.get("access-control-request-headers") ?? ""
  return new Response(null, {
    status: 204,
    headers: {
      ...idHeaders(request_id),
      "access-control-allow-methods": methods,
      ...(HEADER_NAMES.test(requested) ? { "access-control-allow-headers": requested } : {}),
      "access-control-max-age": String(MAX_AGE_S),
    },
  })
}

/** Adds the headers that let a page of an allowed origin read the answer. Adds nothing for any other request. */
export function showTo({ headers }: Request, answer: Headers, origins: readonly string[]): void {
  answer.append("vary", "origin")
  const origin = originOf(headers, origins)
  if (origin === null) return
  answer.set("access-control-allow-origin", origin)
  answer.set("access-control-expose-headers", EXPOSED)
}

/** The request's origin if it is allowed, compared byte for byte. */
function originOf(headers: Headers, origins: readonly string[]): string | null {
  const origin = headers.get("origin")
  return origin !== null && origins.includes(origin) ? origin : null
}

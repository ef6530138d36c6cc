import { type GatewayError, idHeaders } from "../errors.ts"

/** What a page of another origin may see of an answer besides its body. */
const EXPOSED = "x-request-id, request-id, retry-after, x-should-retry"
/** How long a browser may keep what a preflight said, in seconds. */
const MAX_AGE_S = 600
/** Names of headers, separated by commas. */
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~, \t-]{1,1024}$/

const OPERATORS = ["/metrics", "/admin", "/console"]

/** Whether web pages may be allowed to call a path at all. Paths for operators never are (D40). */
export function isForPages(path: string): boolean {
  return !OPERATORS.some((place) => path === place || path.startsWith(`${place}/`))
}

/**
 * The answer to a browser that asks beforehand whether a page of an allowed origin may make a call: the methods are those
 * of the path, whose 405 to `OPTIONS` is `fault`, and whatever headers the page has in mind it may send. Null for any other
 * request, and at a path that does not exist.
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
  const asked = headers.get("access-control-request-headers") ?? ""
  return new Response(null, {
    status: 204,
    headers: {
      ...idHeaders(request_id),
      "access-control-allow-methods": methods,
      ...(HEADER_NAMES.test(asked) ? { "access-control-allow-headers": asked } : {}),
      "access-control-max-age": String(MAX_AGE_S),
    },
  })
}

/** Lets a page of an allowed origin read the answer with these headers; to any other, and to no page at all, it says nothing. */
export function showTo({ headers }: Request, answer: Headers, origins: readonly string[]): void {
  answer.append("vary", "origin")
  const origin = originOf(headers, origins)
  if (origin === null) return
  answer.set("access-control-allow-origin", origin)
  answer.set("access-control-expose-headers", EXPOSED)
}

/** The origin of the page that asks, if it is an allowed one; compared byte for byte. */
function originOf(headers: Headers, origins: readonly string[]): string | null {
  const origin = headers.get("origin")
  return origin !== null && origins.includes(origin) ? origin : null
}

/** The statuses that get their own label. Others are grouped, because a provider could return hundreds of them. */
const KNOWN: ReadonlySet<number> = new Set([
  200, 201, 202, 204, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411,
  412, 413, 414, 415, 421, 422, 424, 425, 429, 431, 451, 498, 499, 500, 501, 502, 503, 504, 505, 507, 508,
  520, 521, 522, 523, 524, 525, 526, 529, 530,
])

/** The outcome of an attempt as a label: a known status, the class of another (`5xx`), or a fixed word. */
export function outcomeLabel(outcome: number | string): string {
  if (typeof outcome === "string" || KNOWN.has(outcome)) return String(outcome)
  const hundreds = Math.floor(outcome / 100)
  return hundreds >= 1 && hundreds <= 5 ? `${hundreds}xx` : "other"
}

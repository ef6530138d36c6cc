export const MAX_FIELDS = 256

/** The answer is not valid HTTP/1.1, or ambiguous. */
export class NotHttp extends Error {
  override readonly name = "NotHttp"
  readonly code = "INVALID_ANSWER"
}

/** Header fields, by name in any case. A field that is sent twice is one, its values joined by a comma (RFC 9110 section 5.3). */
export class Fields {
  readonly #head: string
  readonly #starts: readonly number[]

  /** `starts` is where the lines of the fields begin in a valid head, as `fieldsIn` returns them. */
  constructor(head: string, starts: readonly number[] = []) {
    this.#head = head
    this.#starts = starts
  }

  /** The value of the field `name`, which is in lower case; null when it is missing. */
  get(name: string): string | null {
    const head = this.#head
    const starts = this.#starts
    let value: string | null = null
    for (let at = 0; at < starts.length; at++) {
      const start = starts[at] ?? 0
      if (!isNamed(head, start, name)) continue
      const further = head.slice(start + name.length + 1, starts[at + 1] ?? head.length).trim()
      value = value === null ? further : `${value}, ${further}`
    }
    return value
  }
}

/** True if the line that begins at `start` is of the field `name`. Compared in place: a copy of each name would cost more than the rest. */
function isNamed(head: string, start: number, name: string): boolean {
  if (head.charCodeAt(start + name.length) !== COLON) return false
  for (let at = 0; at < name.length; at++) {
    if ((head.charCodeAt(start + at) | LOWER_CASE) !== name.charCodeAt(at)) return false
  }
  return true
}

const CRLF = "\r\n"
/** The bit in which a letter differs from its capital; those of digits and the hyphen have it too. */
const LOWER_CASE = 32
const COLON = 58

const STATUS = /^HTTP\/1\.[01] \d{3}(?: [\t\x20-\x7e\x80-\xff]*)?(?=\r\n|$)/
const STATUS_AT = "HTTP/1.1 ".length
const FIELD = /\r\n[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*/y

/** A line that ends without CR: whether it ends the head can be read in two ways (RFC 9112 section 2.2). */
export const BARE_LF = /(?:^|[^\r])\n/

/** The transfer encoding, in lower case; null for none, and for `identity`, which RFC 9112 removed and some servers still send. */
export function codingOf(fields: Fields): string | null {
  const coding = fields.get("transfer-encoding")?.toLowerCase() ?? null
  return coding === "identity" ? null : coding
}

/** A content length. One that is sent several times must be the same each time (RFC 9112 section 6.3). */
export function lengthOf(text: string): number {
  const only = numberOf(text)
  if (only !== null) return only
  const [first = "", ...others] = text.split(",")
  const length = numberOf(first)
  if (length === null || others.some((other) => other.trim() !== first))
    throw new NotHttp("the content length is not one number")
  return length
}

/** The number that up to 15 digits are; null for any other text. Read in place: a native call costs more than three digits. */
export function numberOf(text: string): number | null {
  let value = 0
  for (let at = 0; at < text.length; at++) {
    const digit = text.charCodeAt(at) - ZERO
    if (digit < 0 || digit > 9) return null
    value = value * 10 + digit
  }
  return text.length > 0 && text.length <= MAX_DIGITS ? value : null
}

const ZERO = 48
const MAX_DIGITS = 15

/** Seconds for which the server keeps an idle connection (RFC 2068 section 19.7.1.1); null if it does not say. */
export function keptFor(head: string, fields: Fields): number | null {
  // Most heads do not have it, and one search costs less than one in each line.
  if (!head.includes("imeout=")) return null
  const timeout = /(?:^|[ ,;])timeout=(\d{1,6})(?:$|[ ,;])/i.exec(fields.get("keep-alive") ?? "")
  return timeout === null ? null : Number(timeout[1])
}

/** The status of a head. Throws `NotHttp` for another status line. */
export function statusOf(head: string): number {
  if (!STATUS.test(head)) throw new NotHttp("no status line")
  return numberOf(head.slice(STATUS_AT, STATUS_AT + 3)) ?? 0
}

/** The positions of the fields, up to one more than is allowed. Throws `NotHttp` for a malformed one. */
export function fieldsIn(head: string): readonly number[] {
  const starts: number[] = []
  let at = head.indexOf(CRLF)
  while (at !== -1 && at < head.length && starts.length <= MAX_FIELDS) {
    FIELD.lastIndex = at
    if (!FIELD.test(head)) throw new NotHttp("a header field is malformed")
    starts.push(at + CRLF.length)
    at = FIELD.lastIndex
  }
  return starts
}

import fc from "fast-check"
import { CHAT, MESSAGES } from "../support/gateway.ts"
import type { Draft } from "../support/request.ts"

/** What clients, and those who would like to be some, may send: mostly good, and wrong somewhere. */

const words = (text: string): readonly string[] => text.split(" ")

export const word = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.string({ unit: "binary", maxLength: 8 }),
  fc.constantFrom(
    "\u0000",
    "\ud800",
    "",
    ...words("0 -1 1e400 null true __proto__ constructor ../.. %00 %2e%2e"),
  ),
)

/** As it may stand in a first line: what would end it is escaped. */
export function escaped(text: string): string {
  return encodeURI(text.toWellFormed()).replaceAll(/%25([0-9a-f]{2})/gi, "%$1")
}

/** Addresses that there are, with the method that they take; those of calls more often. */
const ADDRESSES: readonly (readonly [method: string, path: string])[] = [
  ...words(
    "/v1/chat/completions /chat/completions /v1/messages/count_tokens /anthropic/v1/messages/count_tokens",
  )
    .flatMap((path) => [path, path, path, path])
    .map((path) => ["POST", path] as const),
  ...words(
    "/v1/models /v1/models/ /models /models/ / /livez /readyz /metrics /docs /docs/json /docs/assets/page.js",
  ).map((path) => ["GET", path] as const),
]

const SEGMENTS = words(
  "v1 chat completions models messages count_tokens anthropic admin accounts keys credits calls audit docs json assets livez",
)
const segment = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...SEGMENTS) },
  { weight: 1, arbitrary: word.map(escaped) },
)
const another_address = fc.tuple(
  fc.constantFrom(...words("GET POST HEAD PUT DELETE OPTIONS PATCH TRACE")),
  fc.oneof(
    fc.constantFrom(...ADDRESSES).map(([, path]) => path),
    fc.array(segment, { maxLength: 6 }).map((segments) => `/${segments.join("/")}`),
  ),
)
const query = fc.array(fc.tuple(word, word), { maxLength: 3 }).map((pairs) => {
  const text = pairs.map(([name, value]) => `${escaped(name)}=${escaped(value)}`).join("&")
  return text === "" ? "" : `?${text}`
})
const address = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...ADDRESSES) },
  { weight: 1, arbitrary: another_address },
)

/** Bytes that a header's value may have. */
const value = fc.oneof(
  fc.uint8Array({ maxLength: 12 }).map((bytes) =>
    Buffer.from(bytes)
      .toString("latin1")
      .replaceAll(/[^\x20-\x7e\x80-\xff]/g, ""),
  ),
  fc.constantFrom(
    ...words("application/json text/event-stream 2023-06-01 gzip close identity utf-8 * https://app.test"),
  ),
)
const HEADERS = words(
  "accept anthropic-version anthropic-beta origin cookie if-none-match range x-request-id upgrade te access-control-request-method",
)
/** Those that decide about the whole request are spoiled more rarely. */
const DECISIVE = words("content-type authorization x-api-key content-encoding expect connection host")
const name = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...HEADERS) },
  { weight: 1, arbitrary: fc.constantFrom(...DECISIVE) },
)
const header = fc.tuple(name, value).map(([key, text]) => `${key}: ${text}`)

export const anything = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown>(true, null, 0, -1, 1.5, 129, 2 ** 53, "", "10", [], {}, [[]], [null]),
  fc.array(fc.record({ role: word, content: fc.jsonValue({ maxDepth: 2 }) }), { minLength: 1, maxLength: 3 }),
)
const FIELDS = words("stream stream_options n max_tokens tools usage name reason id amount")

/** A good body, some of whose fields are something else. */
function spoiled(body: object): fc.Arbitrary<string> {
  const field = fc.constantFrom(...Object.keys(body), ...FIELDS)
  return fc
    .array(fc.tuple(field, anything), { maxLength: 2 })
    .map((changes) => JSON.stringify({ ...body, ...Object.fromEntries(changes) }))
}

/** What may be sent in place of a good body. */
export function bodyLike(body: object): fc.Arbitrary<string | Uint8Array> {
  const cut = fc.tuple(spoiled(body), fc.nat({ max: 200 })).map(([text, at]) => text.slice(0, at))
  return fc.oneof(
    { weight: 8, arbitrary: spoiled(body) },
    { weight: 1, arbitrary: cut },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 200 }) },
    { weight: 1, arbitrary: fc.json() },
  )
}

/** A request to any address. Most carry one of `credentials`. */
export function request(credentials: readonly string[], body: object): fc.Arbitrary<Draft> {
  const credential = fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(...credentials) },
    { weight: 1, arbitrary: value.map((text) => `authorization: ${text}`) },
  )
  const bodies = fc.oneof(bodyLike({ ...body, model: CHAT }), bodyLike({ ...body, model: MESSAGES }))
  const plain = fc.constantFrom(true, true, true, false)
  return fc
    .tuple(address, query, credential, fc.array(header, { maxLength: 2 }), plain, bodies)
    .map(([[method, path], text, key, headers, is_plain, sent]) => ({
      method,
      target: path + text,
      headers: [
        key,
        ...(is_plain ? ["content-type: application/json", "anthropic-version: 2023-06-01"] : []),
        ...headers,
      ],
      ...(method === "POST" ? { body: sent } : {}),
    }))
}

/** Bytes with some of them lost, and others in between. */
export function damaged(whole: fc.Arbitrary<Buffer>): fc.Arbitrary<Buffer> {
  const debris = fc.oneof(
    fc.uint8Array({ maxLength: 3 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
    fc.constantFrom("\r\n", "\n", "\r", "\0", " ", ":", "\r\n\r\n", "0\r\n\r\n"),
    fc.constantFrom("transfer-encoding: chunked\r\n", "content-length: 5\r\n", "host: b\r\n"),
  )
  const damage = fc.record({ at: fc.nat(), lost: fc.nat({ max: 3 }), debris })
  return fc.tuple(whole, fc.array(damage, { minLength: 1, maxLength: 3 })).map(([bytes, damages]) => {
    const text = damages.reduce((left, { at, lost, debris }) => {
      const place = at % (left.length + 1)
      return left.slice(0, place) + debris + left.slice(place + lost)
    }, bytes.toString("latin1"))
    return Buffer.from(text, "latin1")
  })
}

/** What an operator may ask with a good token; `ids` are some that there are. */
export function operatorsRequest(ids: readonly string[]): fc.Arbitrary<Draft> {
  const id = fc.oneof(fc.constantFrom(...ids), word.map(escaped))
  const paths = words(
    "accounts accounts/ID accounts/ID/credits accounts/ID/balance accounts/ID/keys keys/ID calls calls/ID audit usage timeline latency outcomes estimates usage-notes upstreams journal sums/check session",
  )
  const path = fc
    .tuple(fc.constantFrom(...paths), id)
    .map(([place, text]) => `/admin/${place.replace("ID", () => text)}`)
  const filter = fc.constantFrom(
    ...words("account key model state failure from to limit after at by step operation session full"),
  )
  const filters = fc
    .array(fc.tuple(filter, fc.oneof(word.map(escaped), id)), { maxLength: 3 })
    .map((pairs) => pairs.map(([key, text]) => `${key}=${text}`).join("&"))
  const body = fc.oneof(
    bodyLike({ name: "Acme" }),
    bodyLike({ amount: "1", reason: "a gift" }),
    bodyLike({ name: "a key", models: [CHAT], expires_at: "2099-01-01T00:00:00Z" }),
  )
  return fc
    .tuple(fc.constantFrom("GET", "POST", "POST", "DELETE"), path, filters, body)
    .map(([method, place, text, sent]) => ({
      method,
      target: `${place}?${text}`,
      ...(method === "POST" ? { body: sent } : {}),
    }))
}

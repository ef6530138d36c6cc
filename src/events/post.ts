import { lookup } from "node:dns"
import { request as plainRequest } from "node:http"
import { request as securedRequest } from "node:https"
import type { LookupFunction } from "node:net"
import { isIP } from "node:net"
import { hostOf } from "../wire/host.ts"
import { isPrivate } from "./private-address.ts"

/** Requests to sinks, only to addresses that the operator allows (D96). */

/** Longest wait for an answer, from the lookup of the name to the status. */
const ANSWER_MS = 15_000
const READ_BYTES = 16_384
/** The most informational answers before the real one. Without a limit, a receiver could keep the event loop busy with them. */
const MAX_INFORMATIONAL = 16

export interface SinkRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The answer: its status, and the beginning of its body if that is read; or why there is none. */
export type SinkAnswer = { readonly status: number; readonly text: string } | { readonly reason: string }

/** The reason why a URL cannot be that of a receiver, in words for the operator; null if it can. */
export function faultOfUrl(text: string, allow_private: boolean): string | null {
  if (!URL.canParse(text)) return "a URL"
  const url = new URL(text)
  if (url.username !== "" || url.password !== "") return "a URL without a user and a password"
  const is_secured = url.protocol === "https:"
  if (!is_secured && !(allow_private && url.protocol === "http:"))
    return "an https URL; http needs allow_private"
  const host = hostOf(url)
  const is_private = isIP(host) === 0 ? host === "localhost" || host.endsWith(".localhost") : isPrivate(host)
  return is_private && !allow_private ? "a public address; a private one needs allow_private" : null
}

class PrivateAddress extends Error {
  override readonly name = "PrivateAddress"
}

class TooManyInformational extends Error {
  override readonly name = "TooManyInformational"
}

/** Only the addresses that the name has at the time of the connection count, and each of them must be public. */
const publicLookup: LookupFunction = (hostname, options, done) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error === null && addresses.some(({ address }) => isPrivate(address)))
      done(new PrivateAddress("the name has a private address"), [])
    else if (options.all === true || error !== null) done(error, addresses)
    else done(null, addresses[0]?.address ?? "", addresses[0]?.family)
  })
}

/** Sends a request. Redirects are not followed. `reads` reads the beginning of the answer's body, unless the status is a 2xx. Never fails. */
export async function post(...args: Parameters<typeof send>): Promise<SinkAnswer> {
  try {
    return await send(...args)
  } catch (error) {
    // No request was made, for example because a header has a letter outside of Latin-1.
    return { reason: error instanceof Error ? reasonOf(error) : "unreachable" }
  }
}

function send(
  { url: text, headers, body }: SinkRequest,
  { allow_private, reads }: { readonly allow_private: boolean; readonly reads: boolean },
  signal: AbortSignal,
): Promise<SinkAnswer> {
  const fault = faultOfUrl(text, allow_private)
  if (fault !== null) return Promise.resolve({ reason: `the address is not ${fault}` })
  const url = new URL(text)
  const { promise, resolve } = Promise.withResolvers<SinkAnswer>()
  const open = url.protocol === "https:" ? securedRequest : plainRequest
  const bytes = Buffer.from(body)
  const timeout = AbortSignal.timeout(ANSWER_MS)
  const request = open(url, {
    method: "POST",
    headers: { "content-length": bytes.length, "user-agent": "Tollgate", ...headers },
    signal: AbortSignal.any([signal, timeout]),
    ...(!allow_private && { lookup: publicLookup }),
  })
  request.on("response", (answer) => {
    const { statusCode: status = 0 } = answer
    const parts: Buffer[] = []
    const done = () => {
      answer.destroy()
      resolve({ status, text: Buffer.concat(parts).toString() })
    }
    answer.on("error", done)
    if (!reads || (status >= 200 && status < 300)) return done()
    answer.on("data", (part: Buffer) => {
      parts.push(part)
      if (parts.reduce((sum, { length }) => sum + length, 0) >= READ_BYTES) done()
    })
    answer.on("end", done)
  })
  let informational = 0
  request.on("information", () => {
    informational += 1
    if (informational > MAX_INFORMATIONAL) request.destroy(new TooManyInformational())
  })
  // Without a listener nothing else is emitted, and the sink would wait for ever.
  request.on("upgrade", ({ statusCode: status = 101 }, socket) => {
    socket.destroy()
    resolve({ status, text: "" })
  })
  request.on("error", (error) => resolve({ reason: timeout.aborted ? "no answer in time" : reasonOf(error) }))
  request.end(bytes)
  return promise
}

/** Without what the error says besides, which may be text of the receiver. */
function reasonOf(error: Error): string {
  if (error instanceof PrivateAddress) return error.message
  const code = "code" in error && typeof error.code === "string" ? error.code : error.name
  return `unreachable (${code})`
}

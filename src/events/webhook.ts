import { createHmac, randomBytes } from "node:crypto"
import { lookup } from "node:dns"
import { request as plainRequest } from "node:http"
import { request as securedRequest } from "node:https"
import type { LookupFunction } from "node:net"
import { isIP } from "node:net"
import { hostOf } from "../wire/host.ts"
import { isPrivate } from "./private-address.ts"

/** Webhooks as Standard Webhooks has them (D96). */

/** Longest wait for an answer, from the lookup of the name to the status. */
const ANSWER_MS = 15_000
const SECRET_BYTES = 32
const PREFIX = "whsec_"

export interface WebhookMessage {
  readonly id: string
  readonly body: string
}

export interface Receiver {
  readonly url: string
  readonly allow_private: boolean
  /** The current one, and during a rotation the one before. */
  readonly secrets: readonly string[]
}

/** Null if the receiver has taken the message. */
export type Refusal = { readonly reason: string; readonly is_gone: boolean } | null

export function makeSecret(): string {
  return `${PREFIX}${randomBytes(SECRET_BYTES).toString("base64")}`
}

/** The headers of a message that is sent at this time. */
export function signedHeaders(
  { id, body }: WebhookMessage,
  secrets: readonly string[],
  at: Date,
): Record<string, string> {
  const timestamp = String(Math.floor(at.getTime() / 1_000))
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(PREFIX.length), "base64")
    return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`
  })
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures.join(" ") }
}

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

/** Only the addresses that the name has at the time of the connection count, and each of them must be public. */
const publicLookup: LookupFunction = (hostname, options, done) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error === null && addresses.some(({ address }) => isPrivate(address)))
      done(new PrivateAddress("the name has a private address"), [])
    else if (options.all === true || error !== null) done(error, addresses)
    else done(null, addresses[0]?.address ?? "", addresses[0]?.family)
  })
}

/** Sends a message. Redirects are not followed, and the body of the answer is not read. */
export function send(message: WebhookMessage, receiver: Receiver, signal: AbortSignal): Promise<Refusal> {
  const { url: text, allow_private, secrets } = receiver
  const fault = faultOfUrl(text, allow_private)
  if (fault !== null) return Promise.resolve({ reason: `the address is not ${fault}`, is_gone: false })
  const url = new URL(text)
  const { promise, resolve } = Promise.withResolvers<Refusal>()
  const fail = (reason: string) => resolve({ reason, is_gone: false })
  const open = url.protocol === "https:" ? securedRequest : plainRequest
  const body = Buffer.from(message.body)
  const timeout = AbortSignal.timeout(ANSWER_MS)
  const request = open(url, {
    method: "POST",
    headers: {
      "content-type": "application/cloudevents+json; charset=utf-8",
      "content-length": body.length,
      "user-agent": "Tollgate",
      ...signedHeaders(message, secrets, new Date()),
    },
    signal: AbortSignal.any([signal, timeout]),
    ...(!allow_private && { lookup: publicLookup }),
  })
  request.on("response", (answer) => {
    const { statusCode = 0 } = answer
    answer.on("error", () => {})
    answer.destroy()
    if (statusCode >= 200 && statusCode < 300) resolve(null)
    else resolve({ reason: `status ${statusCode}`, is_gone: statusCode === 410 })
  })
  request.on("error", (error) => fail(timeout.aborted ? "no answer in time" : reasonOf(error)))
  request.end(body)
  return promise
}

/** Without what the error says besides, which may be text of the receiver. */
function reasonOf(error: Error): string {
  if (error instanceof PrivateAddress) return error.message
  const code = "code" in error && typeof error.code === "string" ? error.code : error.name
  return `unreachable (${code})`
}

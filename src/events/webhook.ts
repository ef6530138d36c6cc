import { createHmac, randomBytes } from "node:crypto"
import type { SinkKindOf } from "./sink-kind.ts"

/** Webhooks as Standard Webhooks has them (D96). */

const SECRET_BYTES = 32
const PREFIX = "whsec_"

export function makeSecret(): string {
  return `${PREFIX}${randomBytes(SECRET_BYTES).toString("base64")}`
}

export function signedHeaders(
  { id, body }: { readonly id: string; readonly body: string },
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

/** One event each. Any status but a 2xx refuses it, and 410 ends the delivery. */
export const webhook: SinkKindOf = {
  most_events: 1,
  is_for: () => true,
  request([event], { url, secrets }) {
    const message = { id: event.id, body: JSON.stringify(event) }
    const headers = signedHeaders(message, secrets, new Date())
    return {
      url,
      headers: { "content-type": "application/cloudevents+json; charset=utf-8", ...headers },
      body: message.body,
    }
  },
  reads: false,
  meaning: ({ status }) => (status === 410 ? "gone" : "again"),
}

import type { Answer } from "../support/answer.ts"
import { dial } from "../support/raw-client.ts"
import { requestBytes } from "../support/request.ts"

/** A client that made one call, and sees when the head is complete, every byte of the body, and how it ended. */
export interface Client {
  /** `performance.now()` when the request was handed over. */
  readonly sent_ms: number
  /** Resolves when the head is complete; its body is what had come with it. */
  readonly head: Promise<Answer>
  /** Resolves when the answer is whole or its connection is over. */
  readonly ended: Promise<Answer>
  /** Resolves with the answer so far as soon as its body holds `text`; rejects when it ends without. */
  received(text: string): Promise<Answer>
  /** Reads no more: the gateway's writes soon find the way blocked. */
  stopReading(): void
  /** Cuts the connection with a RST, as a client does that is killed. */
  leave(): void
}

export interface Sending {
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends one chat request on a connection of its own; a string is sent as it is. */
export function send(url: string, key: string, body: object | string, sending: Sending = {}): Client {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json", ...sending.headers }
  const client = dial({ url })
  client.send(
    requestBytes({
      method: "POST",
      target: sending.path ?? "/v1/chat/completions",
      headers: Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      body,
    }),
  )
  const head = client.answered(() => true)
  const ended = client.answered(({ whole }, is_over) => whole || is_over)
  head.catch(() => {})
  ended.then(client.halfClose, () => {})
  return {
    sent_ms: performance.now(),
    head,
    ended,
    received: (text) => client.answered(({ body }) => body.includes(text)),
    stopReading: client.stopReading,
    leave: () => void client.reset(),
  }
}

import { CHAT } from "./gateway.ts"

/** What a test says of a request; the rest is as any client writes it. */
export interface Draft {
  readonly method?: string
  /** The request target, as it stands in the first line. */
  readonly target?: string
  /** Header lines as they are written: `accept: text/plain`. */
  readonly headers?: readonly string[]
  /** An object is sent as JSON; its media type is only said where `headers` says it. */
  readonly body?: object | string | Uint8Array
}

/** The bytes of a request: with a Host, and with a length where there is a body. */
export function requestBytes({ method = "GET", target = "/", headers = [], body }: Draft): Buffer {
  const bytes = bodyBytes(body)
  const length = body === undefined ? [] : [`content-length: ${bytes.byteLength}`]
  const head = [`${method} ${target} HTTP/1.1`, "host: gateway.test", ...length, ...headers, "", ""]
  return Buffer.concat([Buffer.from(head.join("\r\n"), "latin1"), bytes])
}

function bodyBytes(body: Draft["body"]): Uint8Array {
  if (body instanceof Uint8Array) return body
  if (body === undefined) return new Uint8Array()
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body))
}

/** A JSON body posted by the holder of `key`. */
export function jsonDraft(
  key: string,
  target: string,
  body: object | string,
  headers: readonly string[] = [],
) {
  const own = [`authorization: Bearer ${key}`, "content-type: application/json"]
  return { method: "POST", target, headers: [...own, ...headers], body }
}

/** The same by `fetch`. */
export function postJson(url: string, key: string, body: unknown, headers: Record<string, string> = {}) {
  return fetch(url, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  })
}

/** A chat request as a client writes it, with what most tests leave alone. */
export function chatBody<Fields extends object>(fields?: Fields) {
  return { model: CHAT, messages: [{ role: "user" as const, content: "hello" }], ...fields }
}

export function chatRequest(key: string, fields: object = {}, headers: readonly string[] = []): string {
  return requestBytes(jsonDraft(key, "/v1/chat/completions", chatBody(fields), headers)).toString()
}

/** An embeddings call of the default model. */
export function embeddingsRequest(key: string, fields: object, headers: readonly string[] = []): string {
  return requestBytes(
    jsonDraft(key, "/v1/embeddings", JSON.stringify({ model: CHAT, ...fields }), headers),
  ).toString()
}

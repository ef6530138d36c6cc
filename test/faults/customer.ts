import { rawClient } from "../support/raw-client.ts"
import { chatRequest, embeddingsRequest } from "../support/request.ts"
import { type Plan, promptOf } from "./author.ts"

/** What a client of one call does. */
export interface Conduct {
  readonly plan: Plan
  /** It goes after so many bytes, whatever comes; null when it reads to the end. */
  readonly leaves_after_bytes: number | null
  readonly leaves_by: "FIN" | "RST"
}

/** What a client saw of one call. */
export interface Seen {
  readonly id: string | null
  /** Null when no status line came. */
  readonly status: number | null
  /** Of output, at least. */
  readonly output_bytes: number
  /** It has everything that it can get: `[DONE]`, or a whole JSON body. */
  readonly whole: boolean
  /** It left before the gateway closed the connection. */
  readonly left: boolean
  /** What it was told instead of an answer. */
  readonly refusal: string
}

/** No fault lasts longer. */
const PATIENCE_MS = 10_000

export async function call(
  gateway: { readonly url: string },
  key: string,
  { plan, leaves_after_bytes, leaves_by }: Conduct,
): Promise<Seen | null> {
  const client = await rawClient(gateway).catch(() => null)
  if (client === null) return null
  client.send(requestOf(plan, key))
  let left = false
  const leave = () => {
    left = true
    return leaves_by === "FIN" ? client.leave() : client.reset()
  }
  const bored = setTimeout(leave, PATIENCE_MS)
  const looking = setInterval(() => {
    if (leaves_after_bytes !== null && client.received_bytes >= leaves_after_bytes) leave()
  }, 5)
  await client.closed
  clearTimeout(bored)
  clearInterval(looking)
  return { ...seen(client.received), left }
}

function requestOf(plan: Plan, key: string): string {
  const headers = ["connection: close"]
  const prompt = promptOf(plan)
  if (plan.operation === "embeddings") return embeddingsRequest(key, { input: prompt }, headers)
  return chatRequest(key, { messages: [{ role: "user", content: prompt }], stream: plan.stream }, headers)
}

function seen(received: string): Omit<Seen, "left"> {
  const [head = "", ...bodies] = received.split("\r\n\r\n")
  const body = bodies.join("\r\n\r\n")
  const status = /^HTTP\/1\.1 (\d{3})/.exec(head)?.[1]
  const length = /^content-length: (\d+)/im.exec(head)?.[1]
  const words = [...body.matchAll(/"content":"(x+)"/g)]
  return {
    id: /^x-request-id: (\S+)/im.exec(head)?.[1] ?? null,
    status: status === undefined ? null : Number(status),
    output_bytes: words.reduce((sum, [, word = ""]) => sum + word.length, 0),
    whole: body.includes("data: [DONE]\n\n") || (length !== undefined && body.length === Number(length)),
    refusal: status === "200" ? "" : received,
  }
}

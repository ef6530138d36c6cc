import { CHAT } from "../support/gateway.ts"
import {
  chatChunk,
  type Exchange,
  type Provider,
  silent,
  sseEvent,
  usage,
  usageChunk,
} from "../support/provider.ts"
import { type RawClient, rawClient } from "../support/raw-client.ts"
import { chatRequest } from "../support/request.ts"

export const text = (content: string) => sseEvent(chatChunk({ content }))

/** A stream whose first word the client has; the test writes the rest, by its exchange with the provider. */
export async function beginStream(
  gateway: { readonly url: string },
  provider: Provider,
  key: string,
  model = CHAT,
): Promise<{ client: RawClient; exchange: Exchange }> {
  provider.replyOnce(silent())
  const client = await rawClient(gateway)
  client.send(chatRequest(key, { stream: true, model }))
  const exchange = await provider.exchange(provider.exchanges.length + 1)
  await exchange.head(200, { "content-type": "text/event-stream" })
  await exchange.chunk(text("first"))
  await client.receives("first")
  return { client, exchange }
}

/** The provider says the rest, with `usage(10, 5)`; true when it was let do so. */
export async function finishStream({ chunk, end }: Exchange): Promise<boolean> {
  await chunk(text(" last"))
  await chunk(`${sseEvent(usageChunk(usage(10, 5)))}data: [DONE]\n\n`)
  return await end()
}

/** Whether nothing listens there any more. */
export async function refuses(gateway: { readonly url: string }): Promise<boolean> {
  try {
    const client = await rawClient(gateway)
    client.leave()
    return false
  } catch {
    return true
  }
}

import { operatorOf } from "../support/operator.ts"
import type { Provider } from "../support/provider.ts"
import type { RawClient } from "../support/raw-client.ts"
import { beginStream } from "./stream.ts"

type Stream = Awaited<ReturnType<typeof beginStream>>

/** What a scrape says of a metric, by the worker's number. */
export async function byWorker(
  gateway: { readonly url: string },
  metric: string,
): Promise<Map<string, number>> {
  const text = await operatorOf(gateway.url).metrics()
  const samples = text.matchAll(new RegExp(`^${metric}\\{(?:.*,)?worker="(\\d+)"\\} (\\S+)$`, "gm"))
  return new Map([...samples].map(([, worker = "", value]) => [worker, Number(value)]))
}

/** Streams that are begun until each of `workers` has some: which one gets a connection is for the kernel to say. */
export async function streamsOnAll(
  gateway: { readonly url: string },
  provider: Provider,
  key: string,
  workers: number,
): Promise<Stream[]> {
  const streams: Stream[] = []
  for (;;) {
    streams.push(await beginStream(gateway, provider, key))
    const open = await byWorker(gateway, "tollgate_open_holds")
    if ([...open.values()].filter((count) => count > 0).length === workers) return streams
  }
}

/** Whether the connection ends, or its answer does. */
export async function ending(client: RawClient): Promise<"whole" | "cut"> {
  return await client.receives("data: [DONE]\n\n").then(
    () => "whole",
    () => "cut",
  )
}

/** Whether there is a process of this pid. */
export function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

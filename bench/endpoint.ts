import { Child } from "./child.ts"
import type { Endpoint } from "./command.ts"
import { type Arrival, type Job, JobReport } from "./job.ts"
import { type RunFacts, runFacts } from "./machine.ts"
import { promptOf } from "./prompt.ts"
import type { TargetResult } from "./results.ts"
import { measuredOf } from "./scenario.ts"
import { targetResult, wordsOfArrival } from "./scenario-result.ts"

/** The results of a load on an endpoint. */
export interface EndpointResults extends RunFacts {
  readonly kind: "endpoint"
  /** Without user and query, which may contain secrets. */
  readonly url: string
  readonly model: string
  readonly load: string
  readonly calls: number
  /** Whether the user gave a service level. */
  readonly has_level: boolean
  readonly found: TargetResult
  readonly faults: readonly string[]
}

const CHAT = "/chat/completions"
/** How long the last calls may take after the load has ended. */
const LAST_CALL_MS = 1_800_000

/** Puts a load on an OpenAI-compatible endpoint; nothing is started but the load generator. */
export async function loadEndpoint(endpoint: Endpoint): Promise<EndpointResults> {
  const started = new Date()
  const job = jobOf(endpoint)
  const child = new Child("load")
  try {
    const report = await child.ask(JobReport, job, endpoint.duration_ms + LAST_CALL_MS)
    return {
      kind: "endpoint",
      ...runFacts(started),
      url: endpoint.url.origin + job.path,
      model: endpoint.model,
      load: wordsOfArrival(job.arrival),
      calls: report.made,
      has_level: Object.keys(endpoint.level).length > 0,
      found: targetResult([measuredOf(report, job.arrival)]),
      faults: Object.entries(report.failures).map(([what, count]) => `${count} calls failed: ${what}`),
    }
  } finally {
    await child.stop()
  }
}

export function jobOf({ url, key, model, stream, rate, concurrency, ...endpoint }: Endpoint): Job {
  const { duration_ms, level } = endpoint
  const base = url.pathname.replace(/\/+$/, "")
  const arrival: Arrival =
    rate === null
      ? { kind: "closed", connections: concurrency, duration_ms }
      : { kind: "open", per_second: rate, duration_ms }
  const asked = stream ? { stream, stream_options: { include_usage: true } } : {}
  const messages = promptOf(endpoint.prompt_bytes)
  const tls = url.protocol === "https:"
  return {
    origin: { host: url.hostname, port: Number(url.port) || (tls ? 443 : 80), tls },
    path: base.endsWith(CHAT) ? base : base + CHAT,
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model, messages, max_tokens: endpoint.max_tokens, ...asked }),
    stream,
    arrival,
    warm_ms: 0,
    to_the_end: true,
    leave_after: null,
    level,
    pid: null,
    postgres_pid: null,
  }
}

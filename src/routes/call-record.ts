import type { Gateway } from "../gateway.ts"
import type { OnSettled } from "../settlement/settle.ts"
import type { Attempts } from "../upstream/forward.ts"

/** Counts the attempts at providers for one request, and writes a warning for each that failed. */
export function attemptsIn({ metrics, log }: Gateway, request_id: string): Attempts {
  return {
    attempted(upstream, outcome, duration_ms, fault) {
      metrics.attempted(upstream, outcome, duration_ms)
      if (fault === null) return
      log.warn(
        { request_id, upstream: upstream.name, fault, duration_ms: Math.round(duration_ms) },
        "an upstream failed",
      )
    },
  }
}

/** Counts a call that ended and writes its one line in the log: amounts, tokens and times, never a key or a prompt. */
export function recordIn({ metrics, log }: Gateway): OnSettled {
  return ({ hold }, closing) => {
    metrics.settled(hold, closing)
    log.call({
      request_id: hold.id,
      account_id: hold.account_id,
      key_id: hold.key_id,
      model: hold.model,
      upstream: closing.upstream ?? hold.upstream,
      stream: hold.stream,
      outcome: closing.outcome,
      basis: closing.basis,
      ending: closing.ending,
      failure: closing.failure,
      notes: closing.notes,
      usage: closing.usage,
      reserved_nano: hold.amount_nano.toString(),
      charge_nano: closing.charge_nano.toString(),
      ttft_ms: closing.ttft_ms,
      duration_ms: closing.duration_ms,
    })
  }
}

/** The last byte waits for the settlement (D32); how long is what the gateway adds after an answer. */
export async function whenDurable({ metrics }: Gateway, durable: Promise<void>): Promise<void> {
  const settled_ms = performance.now()
  await durable
  metrics.added("after", performance.now() - settled_ms)
}

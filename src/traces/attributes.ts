import type { Route, Upstream } from "../config/config.ts"
import type { End, Hold } from "../ledger/entries.ts"
import { type Failure, genAiOperation, type OperationName } from "../wire/call.ts"
import type { SpanAttributes } from "./otlp.ts"

/** Span attributes: the names of the OpenTelemetry HTTP and GenAI conventions, otherwise `tollgate.…` (D54). */

export function attemptAt({ upstream, model }: Route, operation: string): SpanAttributes {
  return {
    "gen_ai.operation.name": operation,
    "gen_ai.provider.name": upstream.name,
    "gen_ai.request.model": model,
    "http.request.method": "POST",
    ...serverOf(upstream),
  }
}

const servers = new WeakMap<Upstream, SpanAttributes>()

/** Only host and port, because a URL can contain a credential. */
function serverOf(upstream: Upstream): SpanAttributes {
  const known = servers.get(upstream)
  if (known !== undefined) return known
  const { hostname, port, protocol } = new URL(upstream.base_url)
  const server = {
    "server.address": hostname,
    "server.port": port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
  }
  servers.set(upstream, server)
  return server
}

export function callOf(
  { stream, account_id, key_id, amount_nano }: Hold,
  model: string,
  operation: OperationName,
): SpanAttributes {
  return {
    "gen_ai.operation.name": genAiOperation(operation),
    "gen_ai.request.model": model,
    "gen_ai.request.stream": stream,
    "tollgate.operation": operation,
    "tollgate.account_id": account_id,
    "tollgate.key_id": key_id,
    "tollgate.held_nano_usd": amount_nano,
  }
}

/** Attributes of the end of a call, with the ledger's words (D8, D28). */
export function settlementOf({ outcome, basis, charge_nano, ending, failure, notes }: End): SpanAttributes {
  return {
    "tollgate.outcome": outcome,
    "tollgate.basis": basis,
    "tollgate.charge_nano_usd": charge_nano,
    "tollgate.ending": ending,
    "tollgate.failure": failure,
    "tollgate.notes": notes.length === 0 ? null : notes,
  }
}

export function tokensOf({ usage }: End, upstream: string | null): SpanAttributes {
  return {
    "gen_ai.provider.name": upstream,
    "gen_ai.usage.input_tokens": usage?.prompt_tokens,
    "gen_ai.usage.output_tokens": usage?.completion_tokens,
    "gen_ai.usage.cache_read.input_tokens": usage?.cached_tokens,
  }
}

/** True if the gateway or the provider failed. A client that disconnects is not an error. */
export function isFault(failure: Failure | null): boolean {
  return failure !== null && failure !== "client_left" && failure !== "client_stalled"
}

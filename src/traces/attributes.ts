import type { Family, Route, Upstream } from "../config/config.ts"
import type { End, Hold } from "../ledger/entries.ts"
import type { Failure } from "../wire/call.ts"
import type { Attributes } from "./span.ts"

/** What spans say, in the words of OpenTelemetry's conventions for HTTP and GenAI where they have one, else `tollgate.…` (D54). */

/** The GenAI operation that an upstream is asked for. */
export function operationOf(family: Family): string {
  return family === "chat" ? "chat" : "count_tokens"
}

/** Of an attempt at a provider. */
export function attemptAt({ upstream, model }: Route): Attributes {
  return {
    "gen_ai.operation.name": operationOf(upstream.family),
    "gen_ai.provider.name": upstream.name,
    "gen_ai.request.model": model,
    "http.request.method": "POST",
    ...serverOf(upstream),
  }
}

const servers = new WeakMap<Upstream, Attributes>()

/** Host and port alone: an address may hold a credential. */
function serverOf(upstream: Upstream): Attributes {
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

/** Of a call, from its hold on. */
export function callOf({ stream, account_id, key_id, amount_nano }: Hold, model: string): Attributes {
  return {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": model,
    "gen_ai.request.stream": stream,
    "tollgate.account_id": account_id,
    "tollgate.key_id": key_id,
    "tollgate.reserved_nano_usd": amount_nano,
  }
}

/** What became of a call, in the words of the ledger (D8, D28). */
export function settlementOf({ outcome, basis, charge_nano, ending, failure, notes }: End): Attributes {
  return {
    "tollgate.outcome": outcome,
    "tollgate.basis": basis,
    "tollgate.charge_nano_usd": charge_nano,
    "tollgate.ending": ending,
    "tollgate.failure": failure,
    "tollgate.notes": notes.length === 0 ? null : notes,
  }
}

/** Who answered a call, and the tokens that it was charged for. */
export function tokensOf({ usage }: End, upstream: string | null): Attributes {
  return {
    "gen_ai.provider.name": upstream,
    "gen_ai.usage.input_tokens": usage?.prompt_tokens,
    "gen_ai.usage.output_tokens": usage?.completion_tokens,
    "gen_ai.usage.cache_read.input_tokens": usage?.cached_tokens,
  }
}

/** Whether a failure is one of the gateway or the provider: a client that leaves makes none. */
export function isFault(failure: Failure | null): boolean {
  return failure !== null && failure !== "client_left" && failure !== "client_stalled"
}

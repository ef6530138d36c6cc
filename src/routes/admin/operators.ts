import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import type { Config } from "../../config/config.ts"
import { GatewayError } from "../../errors.ts"
import type { Audit } from "../../ledger/journal/audit.ts"
import { readJsonBody } from "../../wire/json.ts"
import { parseId } from "../../wire/query.ts"
import type { UpstreamBody } from "../../wire/upstreams.ts"
import { readBody } from "../request-body.ts"

/** What the operators' routes work with. */
export interface Operators {
  /** The bearer token of `/admin`; null: there is no `/admin`. */
  readonly admin_token: string | null
  readonly database: PostgresJsDatabase
  readonly limits: Config["limits"]
  /** How long an operator waits for the books. */
  readonly deadline_ms: number
  /** How long an operator waits for what reads many entries: sums, statistics, balances of the past, lists of calls, a new limit. */
  readonly sums_deadline_ms: number
  /** How long an operator waits for an audit, which reads the whole journal. */
  readonly audit_deadline_ms: number
  /** How the upstreams do, as each process of this gateway finds it. */
  upstreams(): Promise<readonly UpstreamBody[]>
  /** What this gateway knows beside the journal, for the audit (D13). */
  unheld?(): Audit["violations"]
  /** Told of what each audit found. */
  onAudit?(audit: Audit): void
}

/** The id in a path; what is no UUID names nothing: 404. */
export function pathId(segment: string | null): string {
  const id = segment === null ? null : parseId(segment)
  if (id === null) {
    throw new GatewayError("not_found", { message: "The id in this address is no UUID; every id here is." })
  }
  return id
}

/** The JSON object that a request carries. */
export async function jsonBody(request: Request, { limits }: Operators): Promise<object> {
  return readJsonBody(await readBody(request, limits))
}

/** What operators are told is theirs alone: no cache keeps it. */
export function answer(body: unknown, status = 200): Response {
  return Response.json(body, { status, headers: { "cache-control": "no-store" } })
}

/** The query string of a request. */
export function queryOf(request: Request): URLSearchParams {
  return new URL(request.url).searchParams
}

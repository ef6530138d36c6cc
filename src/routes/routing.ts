import { ParseError, ValidationError } from "elysia"
import { GatewayError, toGatewayError } from "../errors.ts"
import { HOUR_MS } from "../ledger/database/span.ts"
import {
  AccountMoving,
  EntriesArchived,
  FeedGap,
  LedgerBusy,
  LedgerUnavailable,
  NoAnswer,
  TooManyGroups,
  UnknownShard,
} from "../ledger/entries.ts"
import { bodyFault, invalidField, queryFault } from "../wire/fault.ts"
import { printTime } from "../wire/time.ts"

/** The settings of the application. Unknown fields are refused instead of dropped. */
export const ROUTING = {
  strictPath: true,
  normalize: false,
  handler: { standardHostname: false },
} as const

/**
 * A hook before validation that parses the query string. A repeated parameter is a list, which no schema accepts;
 * Elysia would take the last one. The arguments do not name `query`, because Elysia would then parse it for every
 * route.
 */
export function readQuery({ request }: { request: Request }): { query: unknown } {
  const given = new URL(request.url).searchParams
  // A parameter of every list, which is read after the handler.
  given.delete("format")
  const query = [...Map.groupBy(given, ([name]) => name)].map(([name, pairs]) => {
    const values = pairs.map(([, value]) => value)
    return [name, values.length === 1 ? values[0] : values]
  })
  return { query: Object.fromEntries(query) }
}

/** A hook after the handler: answers for an account or an operator must not be cached. */
export function forbidStoring({ set }: { set: { headers: object } }): void {
  Object.assign(set.headers, { "cache-control": "no-store" })
}

const MOVING =
  "The account is being moved to another database. Nothing was sent to a provider and nothing was charged or changed. Retry in a few seconds."

/** Any error as one of the catalogue: the ledger's, Elysia's, and those of body parsers. */
export function faultOf(error: unknown): GatewayError {
  if (error instanceof ValidationError) return misfit(error)
  if (error instanceof ParseError) return faultOf(error.cause)
  if (error instanceof AccountMoving)
    return new GatewayError("ledger_unavailable", { message: MOVING, cause: error.message })
  if (error instanceof NoAnswer) return noAnswer(error)
  if (error instanceof LedgerUnavailable)
    return new GatewayError("ledger_unavailable", { cause: error.message })
  if (error instanceof LedgerBusy) return new GatewayError("overloaded")
  if (error instanceof EntriesArchived) return archivedBefore(error.until)
  if (error instanceof FeedGap) return feedGap(error.reason)
  if (error instanceof UnknownShard) return invalidField("shard", `one of ${error.known.join(", ")}`)
  if (error instanceof TooManyGroups)
    return new GatewayError("invalid_request", { message: TOO_MANY_GROUPS, param: "by" })
  return toGatewayError(error)
}

const TOO_MANY_GROUPS = "This range has too many groups. Choose a shorter range or fewer dimensions."

function noAnswer({ id, shard, message: cause }: NoAnswer): GatewayError {
  const which = shard === undefined ? "The database" : `The database of shard ${shard}`
  return new GatewayError("ledger_unavailable", {
    message: `${which} did not respond. If the request was a change, it may have been applied: check before you repeat it.`,
    fields: id === undefined ? {} : { id },
    cause,
  })
}

export const FEED_ARCHIVED =
  "Events after this cursor or time are archived. Find what is missing in your own records, and continue with a later `from`."
const UNKNOWN_CURSOR =
  "This ledger does not know the cursor: it is of another one, or of a time after its backup. Find what is missing in your own records, and continue with `from`."

function feedGap(reason: FeedGap["reason"]): GatewayError {
  return reason === "archived"
    ? new GatewayError("archived", { message: FEED_ARCHIVED })
    : new GatewayError("invalid_request", { message: UNKNOWN_CURSOR, param: "after" })
}

/** The error for a range that needs archived entries. Before the end of that hour only sums exist. */
function archivedBefore(until: Date): GatewayError {
  const hour = printTime(new Date(Math.ceil(until.getTime() / HOUR_MS) * HOUR_MS))
  return new GatewayError("archived", {
    message: `The entries before ${hour} are archived: ask for whole hours or days, and not by session.`,
  })
}

/** The error for a request that does not fit its schema. An answer that does not fit is kept out of the log. */
function misfit({ type, valueError, all }: ValidationError): GatewayError {
  if (type === "params") {
    if (valueError?.path === "/month") return bodyFault(valueError)
    if (valueError?.path !== "/id") return new GatewayError("not_found")
    return new GatewayError("not_found", { message: "The id in the path is not a valid UUID." })
  }
  if (type === "query") return queryFault(all)
  if (type === "body" && valueError !== undefined) return bodyFault(valueError)
  const cause = new Error(
    `the ${type} does not fit its schema at ${valueError?.path}: ${valueError?.message}`,
  )
  return new GatewayError("internal_error", { cause })
}

import { ParseError, ValidationError } from "elysia"
import { GatewayError, toGatewayError } from "../errors.ts"
import { LedgerBusy, LedgerUnavailable } from "../ledger/entries.ts"
import { bodyFault, queryFault } from "../wire/fault.ts"

/**
 * Any error as an entry of the catalogue. The ledger has its own errors, because it does not know HTTP. Elysia reports
 * what does not fit a schema, and wraps the errors of body parsers.
 */
export function faultOf(error: unknown): GatewayError {
  if (error instanceof ValidationError) return misfit(error)
  if (error instanceof ParseError) return toGatewayError(error.cause)
  if (error instanceof LedgerUnavailable)
    return new GatewayError("ledger_unavailable", { cause: error.message })
  return error instanceof LedgerBusy ? new GatewayError("overloaded") : toGatewayError(error)
}

/**
 * A request that does not fit its schema. An answer that does not is a broken invariant, and its content stays out of
 * the log.
 */
function misfit({ type, valueError, all }: ValidationError): GatewayError {
  if (type === "params") {
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

import type { Address } from "./ledger/database/address.ts"
import { type Database, FIRST_ANSWER_S, openDatabase } from "./ledger/database/database.ts"
import { codeOf } from "./ledger/database/errors.ts"

/** Opens the books for a start, or throws a sentence: the driver's own reason, without the statement that met it. */
export async function openBooks(address: Address): Promise<Database> {
  try {
    return await openDatabase(address)
  } catch (error) {
    throw new Error(`cannot use the database: ${reasonOf(error)}`, { cause: error })
  }
}

/** What the database answers to a gateway that serves, or throws a sentence: its reason, or that it is silent. */
export async function answerOf<Answer>(asked: Promise<Answer>): Promise<Answer> {
  const silent = Promise.withResolvers<never>()
  const wait = () => silent.reject(new Error(`it did not answer within ${FIRST_ANSWER_S} s`))
  const timer = setTimeout(wait, FIRST_ANSWER_S * 1_000)
  try {
    return await Promise.race([asked, silent.promise])
  } catch (error) {
    throw new Error(`cannot use the database: ${reasonOf(error)}`, { cause: error })
  } finally {
    clearTimeout(timer)
  }
}

/** Why the database cannot be used, in the driver's own words. */
export function reasonOf(error: unknown): string {
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error
  if (codeOf(reason) === "CONNECT_TIMEOUT") return `it did not answer within ${FIRST_ANSWER_S} s`
  return reason instanceof Error ? reason.message : String(reason)
}

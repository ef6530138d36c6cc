import type { Address } from "./ledger/address.ts"
import { type Database, openDatabase } from "./ledger/database.ts"

/** Opens the books for a start, or throws a sentence: the driver's own reason, without the statement that met it. */
export async function openBooks(address: Address): Promise<Database> {
  try {
    return await openDatabase(address)
  } catch (error) {
    const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error
    const words = reason instanceof Error ? reason.message : String(reason)
    throw new Error(`the database cannot be used: ${words}`, { cause: error })
  }
}

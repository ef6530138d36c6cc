import { GatewayError } from "../../src/errors.ts"

/** The error with which work ends; fails if it ends otherwise. */
export function refusalOf(work: () => unknown): GatewayError {
  try {
    work()
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error("nothing was refused")
}

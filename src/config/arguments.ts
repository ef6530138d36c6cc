import { parseArgs } from "node:util"
import { MAX_WORKERS } from "./file.ts"

const USAGE = "unknown argument: the only option is --workers N"

/** The number of workers from the command line; null if not given. Throws an error with a sentence for the user. */
export function readWorkers(args: readonly string[]): number | null {
  const { workers } = valuesOf(args)
  if (workers === undefined) return null
  if (/^[1-9]\d?$/.test(workers) && Number(workers) <= MAX_WORKERS) return Number(workers)
  throw new Error(`--workers: expected an integer from 1 to ${MAX_WORKERS}`)
}

function valuesOf(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: { workers: { type: "string" } } }).values
  } catch (error) {
    throw new Error(USAGE, { cause: error })
  }
}

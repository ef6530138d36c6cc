import { getSystemErrorMessage } from "node:util"

/** The reason of a failed operation on a file: the system's words alone, without its code, its call and the path. */
export function systemReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const errno = "errno" in error ? error.errno : undefined
  return typeof errno === "number" && errno < 0 ? getSystemErrorMessage(errno) : error.message
}

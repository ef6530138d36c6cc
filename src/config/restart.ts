import type { Config } from "./config.ts"

/** Sections that are read at the start only. A reload does not apply them. */
const READ_AT_START = ["admin", "lease", "workers"] as const

/** The changed sections of `next` that need a restart to take effect. */
export function needRestart(started: Config, next: Config): string[] {
  return READ_AT_START.filter((section) => !Bun.deepEquals(started[section], next[section]))
}

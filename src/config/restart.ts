import type { Config } from "./config.ts"

/** What a process reads at its start only; a reload leaves it as it was. */
const READ_AT_START = ["admin", "lease", "workers"] as const

/** The sections of `next` that will be in force after a restart only, because they differ from what was started with. */
export function needRestart(started: Config, next: Config): string[] {
  return READ_AT_START.filter((section) => !Bun.deepEquals(started[section], next[section]))
}

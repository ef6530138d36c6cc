import type { ArgsDef } from "citty"
import type { Given } from "./given.ts"

/** The flags that override environment variables of the gateway. */
export const START_ARGS = {
  config: {
    type: "string",
    valueHint: "FILE",
    description: "the configuration file (default: TOLLGATE_CONFIG, then tollgate.yaml)",
  },
  host: {
    type: "string",
    valueHint: "HOST",
    description: "the address to listen on (default: HOST, then 127.0.0.1)",
  },
  port: {
    type: "string",
    valueHint: "PORT",
    description: "the port to listen on, 0 for any free one (default: PORT, then 8080)",
  },
  "data-dir": {
    type: "string",
    valueHint: "DIR",
    description:
      "directory of the embedded database and the spool (default: TOLLGATE_DATA_DIR, then .tollgate)",
  },
} as const satisfies ArgsDef

const VARIABLES = {
  config: "TOLLGATE_CONFIG",
  host: "HOST",
  port: "PORT",
  "data-dir": "TOLLGATE_DATA_DIR",
} as const

/** The environment variables that the given flags set. */
export function variablesOf(given: Given<keyof typeof START_ARGS>): Record<string, string> {
  const flags = ["config", "host", "port", "data-dir"] as const
  return Object.fromEntries(
    flags.flatMap((flag) => {
      const text = given.text(flag)
      return text === null ? [] : [[VARIABLES[flag], text] as const]
    }),
  )
}

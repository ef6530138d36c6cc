import { fileURLToPath } from "node:url"
import { CliError } from "./cli-error.ts"
import { type Arguments, type Given, leaf } from "./command.ts"
import type { Runtime } from "./screen.ts"

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
} as const satisfies Arguments

/** `tollgate serve`: the gateway. */
export const serve = leaf({
  summary: "Run the gateway",
  details: "Without a configuration it starts as a demo. Each flag overrides an environment variable.",
  args: {
    ...START_ARGS,
    workers: {
      type: "string",
      valueHint: "N",
      description: "number of processes that share the port (default: workers of the configuration)",
    },
  },
  examples: [
    ["tollgate serve", "listens on 127.0.0.1:8080"],
    ["tollgate serve --port 9000 --data-dir /tmp/tollgate-demo", "a second demo"],
  ],
  run(given, { env }) {
    const workers = given.text("workers")
    become("../main.ts", workers === null ? [] : ["--workers", workers], { ...env, ...variablesOf(given) })
  },
})

/**
 * Replaces this process by another program. The pid stays the same, so signals, the exit code and supervisors work as if the
 * program had been started directly.
 */
export function become(program: string, args: readonly string[], env: Runtime["env"]): never {
  const { execve } = process
  if (execve === undefined)
    throw new CliError("this platform does not support this command: use `bun run start` or `bun run bench`")
  const path = fileURLToPath(new URL(program, import.meta.url))
  return execve(process.execPath, [process.execPath, path, ...args], { ...env })
}

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

const PROGRAM = "../../bench/main.ts"
/** What only the benchmark needs: a development dependency, so an install for production leaves it out. */
const PACKAGE = "hdr-histogram-js"

/** `tollgate bench`: the benchmark, which parses its own arguments. */
export const bench = leaf({
  summary: "Benchmark the gateway or any OpenAI-compatible endpoint",
  details:
    "All arguments are passed to the benchmark. Needs a checkout of the repository: the image does not contain it.",
  args: {},
  passes_arguments: true,
  examples: [
    ["tollgate bench -- --help", "what it measures, and its flags"],
    [
      'tollgate bench --url http://127.0.0.1:8080/v1 --key "$KEY" --model demo-small --stream --duration 2s',
      "load on a running gateway",
    ],
  ],
  run(_given, { env }, words) {
    if (!isInstalled()) {
      throw new CliError(
        "The benchmark is not installed here. Run `bun run bench` in a checkout of the repository.",
      )
    }
    // Its bare pass-through calls `fetch`, which Bun limits to 256 requests at once unless this is set before it starts.
    const unlimited = { ...env, BUN_CONFIG_MAX_HTTP_REQUESTS: "65535" }
    become(PROGRAM, words[0] === "--" ? words.slice(1) : words, unlimited)
  },
})

function isInstalled(): boolean {
  try {
    return [PROGRAM, PACKAGE].every((name) => Bun.resolveSync(name, import.meta.dir) !== "")
  } catch {
    return false
  }
}

import { fileURLToPath } from "node:url"
import { CliError } from "./cli-error.ts"
import { type Given, leaf } from "./command.ts"
import type { Runtime } from "./screen.ts"

/** The flags that override environment variables of the gateway. */
export const START_WORDS = {
  "--config <FILE>": "the configuration file (default: TOLLGATE_CONFIG, then tollgate.yaml)",
  "--host <HOST>": "the address to listen on (default: HOST, then 127.0.0.1)",
  "--port <PORT>": "the port to listen on, 0 for any free one (default: PORT, then 8080)",
  "--data-dir <DIR>":
    "directory of the embedded database and the spool (default: TOLLGATE_DATA_DIR, then .tollgate)",
} as const

export function variablesOf(given: Partial<Given<typeof START_WORDS>>): Record<string, string> {
  const { config, host, port, "data-dir": data_dir } = given
  const variables = { TOLLGATE_CONFIG: config, HOST: host, PORT: port, TOLLGATE_DATA_DIR: data_dir }
  return Object.fromEntries(
    Object.entries(variables).flatMap(([name, text]) => (text === undefined ? [] : [[name, text]])),
  )
}

export const serve = leaf({
  summary: "Run the gateway",
  details: "Without a configuration it starts as a demo. Each flag overrides an environment variable.",
  words: {
    ...START_WORDS,
    "--workers <N>": "number of processes that share the port (default: workers of the configuration)",
  },
  examples: {
    "tollgate serve": "listens on 127.0.0.1:8080",
    "tollgate serve --port 9000 --data-dir /tmp/tollgate-demo": "a second demo",
  },
  run({ workers, ...given }, { env }) {
    const args = workers === undefined ? [] : ["--workers", workers]
    become("../main.ts", args, { ...env, ...variablesOf(given) })
  },
})

/** Replaces this process by another program, which keeps the pid, so signals and supervisors work. */
export function become(program: string, args: readonly string[], env: Runtime["env"]): never {
  const { execve } = process
  if (execve === undefined)
    throw new CliError("this platform does not support this command: use `bun run start` or `bun run bench`")
  const path = fileURLToPath(new URL(program, import.meta.url))
  return execve(process.execPath, [process.execPath, path, ...args], { ...env })
}

const PROGRAM = "../../bench/main.ts"
/** Needed by the benchmark only: a development dependency, so an install for production leaves it out. */
const PACKAGE = "hdr-histogram-js"

/** `tollgate bench`: the benchmark, which parses its own arguments. */
export const bench = leaf({
  summary: "Benchmark the gateway",
  details:
    "All arguments are passed to the benchmark. Needs a checkout of the repository: the image does not contain it.",
  words: {},
  passes_words: true,
  examples: {
    "tollgate bench -- --help": "what it measures, and its flags",
    "tollgate bench --quick": "every scenario, in under two minutes",
  },
  run(_given, { env }, words) {
    if (!isInstalled()) {
      throw new CliError(
        "The benchmark is not installed here. Run `bun run bench` in a checkout of the repository.",
      )
    }
    // Its bare pass-through calls `fetch`, which Bun limits to 256 requests at a time unless this is set before it starts.
    const unlimited = { ...env, BUN_CONFIG_MAX_HTTP_REQUESTS: "65535" }
    become(PROGRAM, words, unlimited)
  },
})

function isInstalled(): boolean {
  try {
    return [PROGRAM, PACKAGE].every((name) => Bun.resolveSync(name, import.meta.dir) !== "")
  } catch {
    return false
  }
}

import { fileURLToPath } from "node:url"
import { CliError } from "./cli-error.ts"
import { leaf } from "./command.ts"
import type { Runtime } from "./screen.ts"
import { START_ARGS, variablesOf } from "./start-flags.ts"

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

import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { roles, serveParent } from "./child.ts"
import { readCommand, USAGE } from "./command.ts"
import { handlers } from "./handlers.ts"
import { run } from "./run.ts"

/** `bun run bench`: the main process. With the name of a role as argument, one of its child processes. */

const FOLDER = "bench-results"

const [first] = process.argv.slice(2)
const role = roles.find((name) => name === first)
if (role !== undefined) serveParent(handlers[role]())
else process.exitCode = await conduct(process.argv.slice(2))

async function conduct(args: readonly string[]): Promise<number> {
  try {
    const command = readCommand(args)
    if (command.kind === "help") {
      console.log(USAGE)
      return 0
    }
    const { text, results } = await run(command)
    const time = new Date().toISOString().slice(0, 19).replaceAll(":", "")
    const path = command.json ?? join(FOLDER, `${command.kind}-${time}.json`)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, `${JSON.stringify(results, null, 1)}\n`)
    console.log(`${text}\n${path}`)
    return results.faults.length === 0 ? 0 : 1
  } catch (error) {
    const [words] = messageOf(error).split("\n")
    console.error(`bench: ${words}`)
    return 1
  }
}

/** Of what caused it, if that is known: of a statement that failed, what Postgres said. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : messageOf(error.cause)
}

import { type SpawnOptions, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { listens } from "./free-port.ts"

/** Programs that a machine can lack. */

/** Whether the program is missing; then it says in the test's output what is not shown. */
export function isMissing(program: string, what_is_not_shown: string): boolean {
  const is_absent = !existsSync(program)
  if (is_absent) console.warn(`SKIPPED: no ${program}, so nothing shows that ${what_is_not_shown}`)
  return is_absent
}

/** Starts a program that listens on a port, with the arguments that are made for its folder. `killSignal` stops it. */
export async function startExternal(
  program: string,
  port: number,
  prepare: (folder: string) => { readonly args: readonly string[] } & SpawnOptions,
) {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-external-"))
  const { args, killSignal = "SIGTERM", ...options } = prepare(folder)
  const child = spawn(program, args, { ...options, stdio: ["ignore", "ignore", "pipe"] })
  let complaint = ""
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    complaint += text
  })
  while (!(await listens(port))) {
    if (child.exitCode !== null) throw new Error(`${program} did not start: ${complaint}`)
    await Bun.sleep(5)
  }
  return {
    async stop() {
      const exited = once(child, "exit")
      child.kill(killSignal)
      await exited
      if (await listens(port)) throw new Error(`${program} has left a process that listens`)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

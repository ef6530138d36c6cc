import { spawn } from "node:child_process"
import { mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"

const MAIN = join(import.meta.dir, "../../src/cli/main.ts")

/** What a process said and how it ended. */
export interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** A folder in which commands are typed, with `tollgate` and `bun` on the path as a linked package has them. */
export class Shell {
  readonly folder = mkdtempSync(join(tmpdir(), "tollgate-cli-"))
  readonly #variables: Readonly<Record<string, string>>

  constructor(variables: Readonly<Record<string, string>> = {}) {
    symlinkSync(process.execPath, join(this.folder, "bun"))
    symlinkSync(MAIN, join(this.folder, "tollgate"))
    this.#variables = variables
  }

  /** Runs a line of a POSIX shell; nothing of this process' own environment but path and home is in it. */
  run(line: string, variables: Readonly<Record<string, string>> = {}): Promise<Ended> {
    const { PATH = "", HOME = "/" } = process.env
    const env = { PATH: `${this.folder}${delimiter}${PATH}`, HOME, ...this.#variables, ...variables }
    const child = spawn("/bin/sh", ["-c", line], { cwd: this.folder, env, stdio: ["ignore", "pipe", "pipe"] })
    const said = { out: "", err: "" }
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      said.out += text
    })
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said.err += text
    })
    return new Promise((resolve) => {
      child.on("close", (code) => resolve({ code, ...said }))
    })
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }
}

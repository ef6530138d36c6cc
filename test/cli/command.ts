import { execFileSync } from "node:child_process"
import { symlinkSync } from "node:fs"
import { delimiter, join } from "node:path"
import type { Group, Leaf } from "../../src/cli/command.ts"
import { runProgram } from "../../src/cli/program.ts"
import type { Runtime } from "../../src/cli/screen.ts"
import { painter } from "../../src/start/paint.ts"
import { testFolder } from "../support/folder.ts"

const MAIN = join(import.meta.dir, "../../src/cli/main.ts")

export interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** Nothing is printed here. */
export const silent: Runtime = {
  env: {},
  width: null,
  paint: painter(false, {}),
  print() {},
  remark() {},
  printError() {},
}

export function leaves(command: Leaf | Group): Leaf[] {
  return "commands" in command ? Object.values(command.commands).flatMap(leaves) : [command]
}

/** Runs words in this process, as the command line would in its own; far from a terminal, unless one of a width is given. */
export async function type(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
  width: number | null = null,
): Promise<Ended> {
  const said = { out: "", err: "" }
  const code = await runProgram(words, {
    env,
    width,
    paint: painter(width !== null, env),
    print(text) {
      said.out += `${text}\n`
    },
    remark(text) {
      said.err += `${text}\n`
    },
    printError(sentence) {
      said.err += `tollgate: ${sentence}\n`
    },
  })
  return { code, ...said }
}

/** The words that a POSIX shell makes of each line. */
export function wordsOf(lines: readonly string[], variables: Readonly<Record<string, string>>): string[][] {
  const script = ["tollgate() { printf '%s\\0' \"$@\"; printf '\\n\\0'; }", ...lines].join("\n")
  const said = execFileSync("/bin/sh", ["-c", script], { env: { ...variables }, encoding: "utf8" })
  return said
    .split("\n\0")
    .slice(0, -1)
    .map((line) => line.split("\0").slice(0, -1))
}

/** A folder of a test file in which commands are typed, with `tollgate` and `bun` on the path as a linked package has them. */
export class Shell {
  readonly folder = testFolder()
  readonly #variables: Readonly<Record<string, string>>

  constructor(variables: Readonly<Record<string, string>> = {}) {
    symlinkSync(process.execPath, join(this.folder, "bun"))
    symlinkSync(MAIN, join(this.folder, "tollgate"))
    this.#variables = variables
  }

  /** Runs a line of a POSIX shell; nothing of this process' own environment but path and home is in it. */
  async run(line: string, variables: Readonly<Record<string, string>> = {}): Promise<Ended> {
    const { PATH = "", HOME = "/" } = process.env
    const env = { PATH: `${this.folder}${delimiter}${PATH}`, HOME, ...this.#variables, ...variables }
    const stdio = ["ignore", "pipe", "pipe"] as const
    const child = Bun.spawn(["/bin/sh", "-c", line], { cwd: this.folder, env, stdio: [...stdio] })
    const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()])
    return { code: await child.exited, out, err }
  }
}

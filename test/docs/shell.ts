import { join } from "node:path"
import { CLI_FILE } from "../support/programs.ts"
import type { Block } from "./blocks.ts"

/** How what a page writes is said on this machine. */
export interface Place {
  readonly folder: string
  /** Where the gateway listens; the pages say `http://127.0.0.1:8080`. */
  readonly url?: string
  readonly env?: Readonly<Record<string, string>>
  /** Further words of the page, and what stands for them here. */
  readonly words?: Readonly<Record<string, string>>
}

export interface Said {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Runs the blocks of a page as one script, as a person would who pastes one after the other; stops at what fails. */
export async function run(blocks: readonly Block[], place: Place): Promise<Said> {
  if (blocks.length === 0) throw new Error("there is no such block")
  return shell(blocks.map(({ text }) => text).join("\n"), place)
}

/** The same, for a script that must succeed; what it printed. */
export async function play(blocks: readonly Block[], place: Place): Promise<string> {
  const { code, out, err } = await run(blocks, place)
  if (code !== 0) throw new Error(`${blocks[0]?.page}:${blocks[0]?.line} ended with ${code}:\n${out}\n${err}`)
  return out
}

export async function shell(script: string, { folder, url, env = {}, words = {} }: Place): Promise<Said> {
  const tollgate = `${process.execPath} ${CLI_FILE}`
  const here = {
    "npx -y bun@1.4.5 run tollgate": tollgate,
    "bun run tollgate": tollgate,
    ".tollgate": "data",
    ...(url === undefined ? {} : { "http://127.0.0.1:8080": url }),
    ...words,
  }
  const text = Object.entries(here).reduce((said, [word, mine]) => said.replaceAll(word, mine), script)
  const { PATH = "", HOME = "/" } = process.env
  const child = Bun.spawn(["/bin/bash", "-e", "-o", "pipefail", "-c", text], {
    cwd: folder,
    env: { PATH, HOME, NO_COLOR: "1", TOLLGATE_DATA_DIR: join(folder, "data"), ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  })
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  return { code: await child.exited, out, err }
}

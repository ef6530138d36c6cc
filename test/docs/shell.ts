import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { quoted } from "../../src/start/banner.ts"
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

/**
 * The shell of a person who goes through a page: each block has what those before it have set. A program is saved to a file and
 * run, as the page says.
 */
export class Terminal {
  readonly #place: Place
  readonly #own = mkdtempSync(join(tmpdir(), "tollgate-terminal-"))
  readonly #child: Bun.Subprocess<"pipe", "pipe", "inherit">
  readonly #output: AsyncIterator<string>
  #printed = ""
  #blocks = 0

  constructor(place: Place) {
    this.#place = place
    this.#child = Bun.spawn(["/bin/bash"], { ...spawned(place), stdin: "pipe", stderr: "inherit" })
    this.#output = this.#child.stdout.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]()
    this.#child.stdin.write("set -E -o pipefail; trap 'failed=$?' ERR\n")
  }

  /** Sets variables for what comes next. */
  set(variables: Readonly<Record<string, string>>): void {
    for (const [name, value] of Object.entries(variables))
      this.#child.stdin.write(`export ${name}=${quoted(value)}\n`)
  }

  /** Runs a block to its end, also after a command of it that fails, whose exit code is the block's. */
  async run(block: Block): Promise<Said> {
    const name = join(this.#own, String(this.#blocks++))
    writeFileSync(`${name}.sh`, this.#commandsOf(block))
    const end = `\n\u0001${name} `
    this.#child.stdin.write(
      `failed=0; . ${name}.sh </dev/null 2>${name}.err; printf '${end.replace("\n", "\\n")}%s\\n' $failed\n`,
    )
    await this.#child.stdin.flush()
    const [out = "", code] = (await this.#upTo(end)).split(end)
    return { code: Number(code), out, err: readFileSync(`${name}.err`, "utf8") }
  }

  /** The same, for a block of which no command may fail; what it printed. */
  async play(block: Block): Promise<string> {
    const { code, out, err } = await this.run(block)
    if (code !== 0) throw new Error(`${block.page}:${block.line} ended with ${code}:\n${out}\n${err}`)
    return out
  }

  async close(): Promise<void> {
    await this.#child.stdin.end()
    await this.#child.exited
    rmSync(this.#own, { recursive: true })
  }

  #commandsOf({ language, text, line }: Block): string {
    const here = asHere(text, this.#place)
    if (language === "sh") return here
    const file = join(this.#place.folder, `program-${line}.${language === "js" ? "mjs" : language}`)
    writeFileSync(file, here)
    return `${language === "py" ? "python3" : quoted(process.execPath)} ${quoted(file)}\n`
  }

  /** What is printed up to the line that begins with `end`, with that line. */
  async #upTo(end: string): Promise<string> {
    for (;;) {
      const at = this.#printed.indexOf(end)
      const line_end = at < 0 ? -1 : this.#printed.indexOf("\n", at + end.length)
      if (line_end >= 0) {
        const found = this.#printed.slice(0, line_end)
        this.#printed = this.#printed.slice(line_end + 1)
        return found
      }
      const { value, done } = await this.#output.next()
      if (done === true) throw new Error(`the shell has ended:\n${this.#printed}`)
      this.#printed += value
    }
  }
}

/** Runs blocks in one terminal; what they printed. */
export async function play(blocks: readonly Block[], place: Place): Promise<string> {
  const terminal = new Terminal(place)
  try {
    let said = ""
    for (const block of blocks) said += `${await terminal.play(block)}\n`
    return said
  } finally {
    await terminal.close()
  }
}

export async function shell(script: string, place: Place): Promise<Said> {
  const command = ["/bin/bash", "-e", "-o", "pipefail", "-c", asHere(script, place)]
  const child = Bun.spawn(command, { ...spawned(place), stdin: "ignore", stderr: "pipe" })
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  return { code: await child.exited, out, err }
}

/** What a page writes, with the words of this machine. */
function asHere(text: string, { url, words = {} }: Place): string {
  const tollgate = `${process.execPath} ${CLI_FILE}`
  const here = {
    "npx -y bun@1.4.5 run tollgate": tollgate,
    "bun run tollgate": tollgate,
    ...(url === undefined ? {} : { "http://127.0.0.1:8080": url }),
    ...words,
  }
  return Object.entries(here).reduce((said, [word, mine]) => said.replaceAll(word, mine), text)
}

function spawned({ folder, env = {} }: Place) {
  const { PATH = "", HOME = "/" } = process.env
  const own = { PATH, HOME, NO_COLOR: "1", TOLLGATE_DATA_DIR: join(folder, "data"), ...env }
  return { cwd: folder, env: own, stdout: "pipe" } as const
}

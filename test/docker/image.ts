import { chmodSync, copyFileSync, existsSync, mkdirSync } from "node:fs"
import { cp, mkdir, mkdtemp, rm } from "node:fs/promises"
import { homedir, tmpdir } from "node:os"
import { isAbsolute, join } from "node:path"

/** One instruction of a Dockerfile, its continued lines joined. */
export interface Instruction {
  readonly word: string
  readonly rest: string
}

export function parseDockerfile(text: string): Instruction[] {
  return text
    .split("\n")
    .filter((line) => !line.trimStart().startsWith("#"))
    .join("\n")
    .replace(/\\\n\s*/g, "")
    .split("\n")
    .flatMap((line) => {
      const [, word, rest = ""] = /^\s*(\S+)\s+(.*\S)/.exec(line) ?? []
      return word === undefined ? [] : [{ word: word.toUpperCase(), rest }]
    })
}

/** An image without an engine: a folder that stands for its root, and what it would be started with. */
export interface Image {
  readonly root: string
  /** Where `path` of the image is on this machine. */
  at(path: string): string
  /** Starts an exec-form command as the image's user, in its working directory, with its variables and `further` ones. */
  run(command: readonly string[], further?: Record<string, string>): Bun.Subprocess<"ignore", "pipe", "pipe">
  remove(): Promise<void>
}

/** Builds the last stage of a Dockerfile: copies what it copies, and nothing else, and executes its RUN lines. */
export async function buildImage(context: string, dockerfile: string): Promise<Image> {
  const scratch = await mkdtemp(join(tmpdir(), "tollgate-image-"))
  chmodSync(scratch, 0o755)
  const stages = new Map<string, Stage>()
  let stage: Stage | undefined
  for (const { word, rest } of parseDockerfile(dockerfile)) {
    if (word === "FROM") {
      const name = / AS (\S+)$/i.exec(rest)?.[1] ?? "last"
      stage = new Stage(join(scratch, name))
      stages.set(name, stage)
    } else if (stage === undefined) {
      // The base image: this machine stands for it.
      if (word === "ARG") continue
      throw new Error(`${word} before FROM`)
    } else if (word === "COPY") {
      await copy(rest, stage, stages, context)
    } else if (word === "RUN") {
      await stage.execute(rest)
    } else {
      stage.note(word, rest)
    }
  }
  if (stage === undefined) throw new Error("the Dockerfile has no FROM")
  const built = stage
  return {
    root: built.root,
    at: (path) => built.at(path),
    run: (command, further) => built.start(command, further ?? {}),
    remove: () => rm(scratch, { recursive: true, force: true }),
  }
}

/** Root of this machine may become the image's user; anyone else runs it as what they are. */
const MAY_SWITCH = process.getuid?.() === 0

class Stage {
  readonly root: string
  readonly #variables: Record<string, string> = {}
  #folder = "/"
  #user = "0:0"

  constructor(root: string) {
    this.root = root
    mkdirSync(join(root, "usr/local/bin"), { recursive: true })
    mkdirSync(join(root, "tmp"), { recursive: true })
    chmodSync(join(root, "tmp"), 0o1777)
    copyFileSync(process.execPath, join(root, "usr/local/bin/bun"))
  }

  at(path: string): string {
    return join(this.root, isAbsolute(path) ? path : join(this.#folder, path))
  }

  note(word: string, rest: string): void {
    if (word === "WORKDIR") {
      this.#folder = rest
      mkdirSync(this.at(rest), { recursive: true })
    } else if (word === "ENV") {
      for (const [, name = "", value = ""] of rest.matchAll(/(\w+)=(\S*)/g)) this.#variables[name] = value
    } else if (word === "USER") {
      this.#user = rest
    }
  }

  async execute(line: string): Promise<void> {
    const mine = MAY_SWITCH
      ? line
      : line.replace(/\b1000:1000\b/g, `${process.getuid?.()}:${process.getgid?.()}`)
    const child = Bun.spawn(["/bin/sh", "-c", this.#located(mine)], {
      cwd: this.at(this.#folder),
      env: { ...process.env, ...machine(), ...this.#environment() },
      stdout: "pipe",
      stderr: "pipe",
    })
    const said = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    if ((await child.exited) !== 0) throw new Error(`RUN ${line}\n${said.join("\n")}`)
  }

  start(command: readonly string[], further: Record<string, string>) {
    const [uid, gid] = this.#user.split(":").map(Number)
    return Bun.spawn([...command], {
      cwd: this.at(this.#folder),
      env: { ...this.#environment(), ...further },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      ...(MAY_SWITCH && { uid, gid }),
    })
  }

  /** The image's own variables alone, their folders located on this machine. The home is one that does not exist. */
  #environment(): Record<string, string> {
    const own = Object.entries(this.#variables).map(([name, value]) => [name, this.#located(value)])
    return {
      PATH: `${join(this.root, "usr/local/bin")}:/usr/local/bin:/usr/bin:/bin`,
      HOME: join(this.root, "home/nobody"),
      TMPDIR: join(this.root, "tmp"),
      ...Object.fromEntries(own),
    }
  }

  #located(text: string): string {
    return text.replace(/(?<![\w./-])\/(app|data)\b/g, (path) => join(this.root, path))
  }
}

async function copy(rest: string, stage: Stage, stages: ReadonlyMap<string, Stage>, context: string) {
  const words = rest.split(" ")
  const from = /^--from=(\S+)$/.exec(words[0] ?? "")?.[1]
  const source = from === undefined ? null : stages.get(from)
  if (source === undefined) throw new Error(`COPY from an unknown stage: ${rest}`)
  const paths = from === undefined ? words : words.slice(1)
  const destination = paths.at(-1) ?? "."
  for (const path of paths.slice(0, -1)) {
    const origin = source === null ? join(context, path) : source.at(path)
    const target = destination.endsWith("/") ? join(stage.at(destination), path) : stage.at(destination)
    await mkdir(join(target, ".."), { recursive: true })
    await cp(origin, target, { recursive: true, verbatimSymlinks: true })
  }
}

/** How this machine reaches its packages: its settings and its cache, though the home of a RUN line is empty. */
function machine(): Record<string, string> {
  const settings = process.env.NPM_CONFIG_USERCONFIG ?? join(homedir(), ".npmrc")
  const bun = process.env.BUN_INSTALL ?? join(homedir(), ".bun")
  return {
    BUN_INSTALL_CACHE_DIR: process.env.BUN_INSTALL_CACHE_DIR ?? join(bun, "install/cache"),
    ...(existsSync(settings) && { NPM_CONFIG_USERCONFIG: settings }),
  }
}

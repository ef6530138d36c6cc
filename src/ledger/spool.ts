import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises"
import { dirname, join } from "node:path"
import { isId, nextId } from "../id.ts"
import type { Log } from "./log.ts"
import { lineOf, parseLine, type SpooledClosing } from "./spool-line.ts"
import { codeOf } from "./trouble.ts"

/** What another process left behind. */
export interface SpoolFile {
  readonly path: string
  /** The row its process began under. */
  readonly gateway_id: string
  /** Of its bytes: a name may be used again, also for as many bytes. */
  readonly digest: string
  /** Lines that are none: their process died while it wrote them. */
  readonly unreadable: number
  readonly closings: readonly SpooledClosing[]
}

const SUFFIX = ".jsonl"

/**
 * Closings that the books have not taken yet, one JSON object a line, each synced to the disk (D27). A file belongs to
 * one process, but anybody may write its closings into the books: they are idempotent.
 */
export class Spool {
  readonly #folder: string
  readonly #gateway_id: string
  readonly #log: Log
  readonly #kept = new Map<string, SpooledClosing>()
  #unwritten = new Set<string>()
  #writing: Promise<void> | null = null
  #written = false
  #failing = false

  constructor(data_dir: string, gateway_id: string, log: Log) {
    this.#folder = join(data_dir, "spool")
    this.#gateway_id = gateway_id
    this.#log = log
  }

  /** How many closings of this process the books have not taken yet, as far as they came here. */
  get depth(): number {
    return this.#kept.size
  }

  /** Keeps a closing until it is done; whether it was new here. */
  keep(spooled: SpooledClosing): boolean {
    const { id } = spooled.closing
    if (this.#kept.has(id)) return false
    this.#kept.set(id, spooled)
    this.#unwritten.add(id)
    this.#writing ??= this.#write()
    return true
  }

  /** The closing is in the books. */
  done(id: string): void {
    if (!this.#kept.delete(id)) return
    this.#unwritten.delete(id)
    if (this.#kept.size === 0 && this.#written) this.#writing ??= this.#write()
  }

  /** Resolves when everything kept is on the disk, or the disk refused it; the file is gone when nothing is kept. */
  async settled(): Promise<void> {
    if (this.#unwritten.size > 0) this.#writing ??= this.#write()
    while (this.#writing !== null) await this.#writing
  }

  /** The files of other processes. */
  async others(): Promise<SpoolFile[]> {
    const names = await readdir(this.#folder).catch(() => [])
    const files: SpoolFile[] = []
    for (const name of names.sort()) {
      const [gateway_id = ""] = name.split(".")
      if (!name.endsWith(SUFFIX) || !isId(gateway_id) || gateway_id === this.#gateway_id) continue
      const file = await read(join(this.#folder, name), gateway_id)
      if (file !== null) files.push(file)
    }
    return files
  }

  /**
   * Removes a file all of whose closings are in the books, unless it has changed since it was read. It is taken away
   * first and looked at then; its process writes first and looks then whether its file is still there. So a line that
   * comes meanwhile is in what was taken away, which stays, or is written again.
   */
  async remove({ path, gateway_id, digest }: SpoolFile): Promise<void> {
    const away = join(this.#folder, `${gateway_id}.${nextId()}${SUFFIX}`)
    try {
      await rename(path, away)
    } catch (error) {
      if (codeOf(error) === "ENOENT") return
      throw error
    }
    const now = await read(away, gateway_id)
    if (now?.digest === digest) await rm(away, { force: true })
  }

  get #path(): string {
    return join(this.#folder, this.#gateway_id + SUFFIX)
  }

  /** One write at a time; what comes meanwhile is the next one. Begun only when there is something to do. */
  async #write(): Promise<void> {
    try {
      // What is kept while the file is being removed is written before this ends.
      while (this.#unwritten.size > 0 || (this.#kept.size === 0 && this.#written)) {
        if (this.#unwritten.size > 0) await this.#append()
        else {
          this.#written = false
          await rm(this.#path, { force: true })
        }
      }
      this.#failing = false
    } catch (error) {
      if (!this.#failing) {
        this.#log.error({ err: error }, "the spool cannot be written; closings are kept in memory only")
      }
      this.#failing = true
    }
    this.#writing = null
  }

  async #append(): Promise<void> {
    const unwritten = this.#unwritten
    this.#unwritten = new Set()
    try {
      await makeFolder(this.#folder)
      const lines = [...unwritten].flatMap((id) => this.#kept.get(id) ?? []).map(lineOf)
      // A blank line first: the last write may have been cut in the middle of one.
      const text = `${this.#failing ? "\n" : ""}${lines.join("")}`
      while (!(await this.#appendText(text))) {}
      this.#written = true
    } catch (error) {
      this.#unwritten = new Set([...unwritten, ...this.#unwritten])
      throw error
    }
  }

  /** Writes to the disk, unless another process has removed the file meanwhile; whether it did. */
  async #appendText(text: string): Promise<boolean> {
    const file = await open(this.#path, "a", 0o600)
    try {
      const { ino, size } = await file.stat()
      await file.appendFile(text)
      const there = await stat(this.#path).catch(() => null)
      if (there?.ino !== ino) return false
      await file.sync()
      if (size === 0) await syncFolder(this.#folder)
      return true
    } finally {
      await file.close()
    }
  }
}

/** Null when the file was removed meanwhile. */
async function read(path: string, gateway_id: string): Promise<SpoolFile | null> {
  const bytes = await readFile(path).catch(() => null)
  if (bytes === null) return null
  const lines = bytes
    .toString()
    .split("\n")
    .filter((line) => line !== "")
  const closings = lines.map(parseLine).filter((closing) => closing !== null)
  const unreadable = lines.length - closings.length
  const digest = new Bun.CryptoHasher("sha256").update(bytes).digest("hex")
  return { path, gateway_id, digest, unreadable, closings }
}

/** Makes what there is not yet of a folder's path. */
async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true })
  if (first === undefined) return
  for (let made = folder; made.length >= first.length; made = dirname(made)) await syncFolder(dirname(made))
}

/** The name of a new file or folder is durable once the folder that it is in is. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r")
  await handle.sync().finally(() => handle.close())
}

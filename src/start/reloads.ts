import { readFile } from "node:fs/promises"
import { ConfigError } from "../config/config.ts"
import { configOf, type Loaded } from "../config/load.ts"
import type { Sources } from "../config/values.ts"
import type { Log } from "../log.ts"
import { needRestart, refuseOtherShards } from "./setup.ts"

/** The interval at which the files of the configuration are read. */
const LOOK_MS = 1_000

interface ReloadsOptions {
  readonly started: Loaded
  readonly env: Sources["env"]
  readonly log: Log
  load(): Loaded
  /** Makes the gateway use a configuration. Rejects, and changes nothing, if it cannot. */
  apply(loaded: Loaded): Promise<void>
}

/** The new content of a file, until it is in use. */
interface Change {
  /** Null if it cannot be read. */
  readonly text: string | null
  /** True if the configuration is invalid with it. After any other failure it is tried again. */
  is_refused: boolean
  is_told: boolean
}

/** Reloads at a SIGHUP and when a referenced file changes (D82), one at a time. Refused ones change nothing. */
export class Reloads {
  readonly #options: ReloadsOptions
  #current: Loaded
  #last: Promise<void> = Promise.resolve()
  #looking: Promise<void> | null = null
  readonly #changes = new Map<string, Change>()

  constructor(options: ReloadsOptions) {
    this.#options = options
    this.#current = options.started
  }

  watch(): void {
    setInterval(() => void this.look(), LOOK_MS).unref()
  }

  /** Uses the files that have changed. Resolves when they are in use, or refused. */
  look(): Promise<void> {
    this.#looking ??= this.#next(() => this.#look())
    return this.#looking
  }

  /** Reads the configuration file and all files that it references. */
  reload(): Promise<void> {
    return this.#next(() => this.#reload())
  }

  #next(work: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(work)
    return this.#last
  }

  async #reload(): Promise<void> {
    const { started, log, load } = this.#options
    try {
      const next = load()
      await this.#apply(next)
      const { models, upstreams } = next.config
      log.info({ models: models.length, upstreams: upstreams.length }, "the configuration was reloaded")
      const unchanged = needRestart(started.config, next.config)
      if (unchanged.length > 0)
        log.warn(`restart the gateway to apply the new values of ${unchanged.join(", ")}`)
    } catch (error) {
      log.error({ err: error }, "the configuration was not reloaded: the previous one stays in use")
    }
  }

  async #apply(next: Loaded): Promise<void> {
    refuseOtherShards(this.#options.started.config, next.config)
    await this.#options.apply(next)
    this.#current = next
  }

  async #look(): Promise<void> {
    for (const path of Object.keys(this.#current.snapshot.files)) {
      const text = await readFile(path, "utf8").catch(() => null)
      if (text === this.#current.snapshot.files[path]) this.#changes.delete(path)
      else await this.#take(path, text)
    }
    this.#looking = null
  }

  /** Uses new content once it was read twice, because the file may be half written at first. Each file is applied separately. */
  async #take(path: string, text: string | null): Promise<void> {
    const change = this.#changes.get(path)
    if (change?.text !== text) {
      this.#changes.set(path, { text, is_refused: false, is_told: false })
      return
    }
    if (change.is_refused) return
    const { env, log } = this.#options
    const { snapshot } = this.#current
    const { [path]: _, ...others } = snapshot.files
    const changed = { ...snapshot, files: text === null ? others : { ...others, [path]: text } }
    try {
      await this.#apply({ config: configOf(changed, env), snapshot: changed })
      log.info({ file: path }, "a file of the configuration has changed: its new content is in use")
    } catch (error) {
      change.is_refused = error instanceof ConfigError
      if (!change.is_told)
        log.warn(
          { file: path, err: error },
          "a file of the configuration has changed and cannot be used: its last content stays in use",
        )
      change.is_told = true
    }
  }
}

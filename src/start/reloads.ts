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
export function reloadsOf({ started, env, log, load, apply }: ReloadsOptions) {
  let current = started
  let last: Promise<void> = Promise.resolve()
  let looking: Promise<void> | null = null
  const changes = new Map<string, Change>()

  function next(work: () => Promise<void>): Promise<void> {
    last = last.then(work)
    return last
  }

  async function reload(): Promise<void> {
    try {
      const loaded = load()
      await use(loaded)
      const { models, upstreams } = loaded.config
      log.info({ models: models.length, upstreams: upstreams.length }, "the configuration was reloaded")
      const unchanged = needRestart(started.config, loaded.config)
      if (unchanged.length > 0)
        log.warn(`restart the gateway to apply the new values of ${unchanged.join(", ")}`)
    } catch (error) {
      log.error({ err: error }, "the configuration was not reloaded: the previous one stays in use")
    }
  }

  async function use(loaded: Loaded): Promise<void> {
    refuseOtherShards(started.config, loaded.config)
    await apply(loaded)
    current = loaded
  }

  async function readFiles(): Promise<void> {
    for (const path of Object.keys(current.snapshot.files)) {
      const text = await readFile(path, "utf8").catch(() => null)
      if (text === current.snapshot.files[path]) changes.delete(path)
      else await take(path, text)
    }
    looking = null
  }

  /** Uses new content once it was read twice, because the file may be half written at first. Each file is applied separately. */
  async function take(path: string, text: string | null): Promise<void> {
    const change = changes.get(path)
    if (change?.text !== text) {
      changes.set(path, { text, is_refused: false, is_told: false })
      return
    }
    if (change.is_refused) return
    const { snapshot } = current
    const { [path]: _, ...others } = snapshot.files
    const changed = { ...snapshot, files: text === null ? others : { ...others, [path]: text } }
    try {
      await use({ config: configOf(changed, env), snapshot: changed })
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

  /** Uses the files that have changed. Resolves when they are in use, or refused. */
  function look(): Promise<void> {
    looking ??= next(readFiles)
    return looking
  }

  return {
    look,
    watch: () => void setInterval(look, LOOK_MS).unref(),
    /** Reads the configuration file and all files that it references. */
    reload: () => next(reload),
  }
}

import { type Static, Type } from "@sinclair/typebox"
import type { Config } from "./config.ts"
import { loadConfig } from "./load.ts"
import type { Environ, Sources } from "./reference.ts"

/** A configuration as it was read: the file's text, and those of the files that it refers to, by their paths. */
export const Snapshot = Type.Object({
  text: Type.String(),
  files: Type.Record(Type.String(), Type.String()),
})
export type Snapshot = Static<typeof Snapshot>

/** What was read, and what it means. */
export interface Loaded {
  readonly config: Config
  readonly snapshot: Snapshot
}

/** Loads `text` as `loadConfig` does, and keeps what it read on the way. */
export function takeSnapshot(text: string, { env, readFile }: Sources): Loaded {
  const files = new Map<string, string>()
  const config = loadConfig(text, {
    env,
    readFile(path) {
      const found = readFile(path)
      files.set(path, found)
      return found
    },
  })
  return { config, snapshot: { text, files: Object.fromEntries(files) } }
}

/** The same configuration again in another process, whatever has become of its files meanwhile. */
export function configOf({ text, files }: Snapshot, env: Environ): Config {
  return loadConfig(text, {
    env,
    readFile(path) {
      const found = Object.hasOwn(files, path) ? files[path] : undefined
      if (found === undefined) throw new Error("the snapshot lacks a file")
      return found
    },
  })
}

import { type Static, Type } from "@sinclair/typebox"
import type { Config } from "./config.ts"
import { loadConfig } from "./load.ts"
import type { Environ, Sources } from "./reference.ts"

/** The raw configuration: the text of the file, and of all files that it references, by path. */
export const Snapshot = Type.Object({
  text: Type.String(),
  files: Type.Record(Type.String(), Type.String()),
})
export type Snapshot = Static<typeof Snapshot>

/** A raw configuration and its parsed form. */
export interface Loaded {
  readonly config: Config
  readonly snapshot: Snapshot
}

/** Loads `text` like `loadConfig`, and keeps the content of all files that it read. */
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

/** Loads the same configuration in another process, even if its files have changed since. */
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

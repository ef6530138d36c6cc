import { readFileSync } from "node:fs"
import { join } from "node:path"

export const ROOT = join(import.meta.dir, "../..")

/** The files of the repository that match a pattern, by their paths below the root, in their order. */
export function filesMatching(pattern: string): string[] {
  const paths = new Bun.Glob(pattern).scanSync({ cwd: ROOT, dot: true })
  return [...paths].filter((path) => !/(?:^|\/)node_modules\//.test(path)).sort()
}

export function textOf(path: string): string {
  return readFileSync(join(ROOT, path), "utf8")
}

import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"

/** The texts of all files in a folder and below it. */
export function filesBelow(folder: string): string[] {
  mkdirSync(folder, { recursive: true })
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
    .map((path) => readFileSync(path, "latin1"))
}

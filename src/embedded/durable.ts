import { closeSync, fsyncSync, openSync } from "node:fs"

/** Brings a file, or the names in a folder, to the disk. */
export function syncFile(path: string): void {
  const file = openSync(path, "r")
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

import { dlopen } from "bun:ffi"
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs"
import { join } from "node:path"

const { O_RDWR, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants

/** The lock of a folder. */
export interface Lock {
  /** Releases the lock and removes its file. */
  release(): void
}

/**
 * Locks `folder` for this process, or throws a sentence that names the process which has the lock. The kernel holds it
 * (flock), so it ends with the process. A reused pid, or a container where every gateway is pid 1, cannot be mistaken
 * for the holder; the pid in the file is only for the sentence.
 */
export function lockFolder(folder: string): Lock {
  const path = join(folder, "gateway.lock")
  for (;;) {
    const file = openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o644)
    if (!tryLock(file)) {
      const holder = readFileSync(file, "utf8")
      closeSync(file)
      throw new Error(
        `another gateway${holder === "" ? "" : ` (pid ${holder})`} already uses ${folder}: stop it, or use another data directory`,
      )
    }
    // The last holder may have removed the file between opening and locking. Such a lock protects nothing.
    if (fstatSync(file).ino === statSync(path, { throwIfNoEntry: false })?.ino) {
      ftruncateSync(file)
      writeSync(file, String(process.pid))
      return {
        release() {
          rmSync(path, { force: true })
          closeSync(file)
        },
      }
    }
    closeSync(file)
  }
}

const LOCK_EXCLUSIVE = 2
const LOCK_WITHOUT_WAITING = 4

function tryLock(file: number): boolean {
  return libc().symbols.flock(file, LOCK_EXCLUSIVE | LOCK_WITHOUT_WAITING) === 0
}

function libc() {
  const machine = process.arch === "arm64" ? "aarch64" : "x86_64"
  for (const name of ["libc.so.6", `libc.musl-${machine}.so.1`, "libSystem.B.dylib"]) {
    try {
      return dlopen(name, { flock: { args: ["i32", "i32"], returns: "i32" } })
    } catch {
      // Another platform's name.
    }
  }
  throw new Error("cannot lock the data directory: no C library found")
}

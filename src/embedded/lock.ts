import { dlopen } from "bun:ffi"
import * as fs from "node:fs"
import { join } from "node:path"
import { systemReason } from "../system-reason.ts"

const { O_RDWR, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = fs.constants
/** Of flock(2): exclusive, without waiting. */
const LOCK_EX = 2
const LOCK_NB = 4

const FILE = "gateway.lock"

/** Makes the data directory if needed, and returns its real path. Throws a sentence for the operator. */
export function makeDataDir(data_dir: string): string {
  try {
    fs.mkdirSync(data_dir, { recursive: true })
    return fs.realpathSync(data_dir)
  } catch (error) {
    const reason = systemReason(error)
    throw new Error(`cannot create the data directory ${data_dir} (TOLLGATE_DATA_DIR): ${reason}`, {
      cause: error,
    })
  }
}

/** True if a gateway uses `folder`, or was killed while it did. */
export function isLocked(folder: string): boolean {
  return fs.existsSync(join(folder, FILE))
}

/** Locks `folder` by the kernel (flock), so the lock ends with the process. Throws a sentence that names the holder. */
export function lockFolder(folder: string): () => void {
  const path = join(folder, FILE)
  for (;;) {
    const file = fs.openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o644)
    if (libc().symbols.flock(file, LOCK_EX | LOCK_NB) !== 0) {
      const holder = fs.readFileSync(file, "utf8")
      fs.closeSync(file)
      throw new Error(
        `another gateway${holder === "" ? "" : ` (pid ${holder})`} already uses ${folder}: stop it, or use another data directory`,
      )
    }
    // The last holder may have removed the file between opening and locking. Such a lock protects nothing.
    if (fs.fstatSync(file).ino === fs.statSync(path, { throwIfNoEntry: false })?.ino) {
      fs.ftruncateSync(file)
      fs.writeSync(file, String(process.pid))
      return () => {
        fs.rmSync(path, { force: true })
        fs.closeSync(file)
      }
    }
    fs.closeSync(file)
  }
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

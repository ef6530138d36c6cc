import { spawnSync } from "node:child_process"
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"

/** The user that Postgres runs as when the gateway is root, which Postgres refuses to be. */
export interface Runner {
  readonly uid: number
  readonly gid: number
}

/**
 * The user that Postgres runs as when the gateway is root: `tollgate` if the machine has that user, otherwise `nobody`.
 */
export function defaultRunner(): Runner {
  const users = readFileSync("/etc/passwd", "utf8").split("\n")
  for (const wanted of ["tollgate", "nobody"]) {
    const [name, , uid, gid] = users.find((line) => line.startsWith(`${wanted}:`))?.split(":") ?? []
    if (name !== undefined) return { uid: Number(uid), gid: Number(gid) }
  }
  throw new Error(
    "Postgres cannot run as root, and this system has no user nobody: start the gateway as another user",
  )
}

/**
 * Whether `runner` may enter the folder or run the program `path`. Asks the kernel, so every kind of permission counts.
 */
export function reaches(runner: Runner | undefined, path: string): boolean {
  if (runner === undefined) return true
  return spawnSync("/bin/sh", ["-c", 'test -x "$0"', path], { ...runner, cwd: "/" }).status === 0
}

/** Makes the runner the owner of `folder` and everything in it. Returns the folder. */
export function giveTo(runner: Runner | undefined, folder: string): string {
  if (runner === undefined) return folder
  const { uid, gid } = runner
  chownSync(folder, uid, gid)
  for (const entry of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    lchownSync(join(folder, entry), uid, gid)
  }
  return folder
}

/** Where the cluster of a data directory lives, and who runs it. */
export interface Place {
  readonly folder: string
  /** Undefined when the gateway is not root: then Postgres runs as the gateway's own user. */
  readonly runner: Runner | undefined
}

/** The folder for clusters whose runner cannot enter the data directory. */
const CLOSED_PLACES = "/var/lib/tollgate"

/**
 * The place of `data_dir`'s cluster, created if there is none. It is below `data_dir`. If the gateway is root and its
 * runner cannot enter that, it is a separate folder, and a file in `data_dir` names it.
 */
export function findPlace(data_dir: string): Place {
  const inside = insideOf(data_dir)
  const existing = existingPlace(data_dir)
  if (process.geteuid?.() !== 0) return { folder: existing ?? open(inside), runner: undefined }
  if (existing !== null) return { folder: existing, runner: ownerOf(existing) }
  const runner = defaultRunner()
  if (reaches(runner, data_dir)) return { folder: giveTo(runner, open(inside)), runner }
  mkdirSync(CLOSED_PLACES, { recursive: true })
  chmodSync(CLOSED_PLACES, 0o755)
  const folder = giveTo(runner, mkdtempSync(join(CLOSED_PLACES, "books-")))
  const pointer = pointerOf(data_dir)
  writeFileSync(`${pointer}.new`, `${folder}\n`)
  syncFile(`${pointer}.new`)
  renameSync(`${pointer}.new`, pointer)
  return { folder, runner }
}

/** The folder of the place of an earlier start; null if there is none. */
export function existingPlace(data_dir: string): string | null {
  const pointer = pointerOf(data_dir)
  if (!existsSync(pointer)) return existsSync(insideOf(data_dir)) ? insideOf(data_dir) : null
  const named = readFileSync(pointer, "utf8").trim()
  if (existsSync(named)) return named
  throw new Error(
    `the database of ${data_dir} is in ${named}, which no longer exists: restore it, or remove ${pointer}`,
  )
}

function insideOf(data_dir: string): string {
  return join(data_dir, "postgres")
}

function pointerOf(data_dir: string): string {
  return join(data_dir, "postgres.place")
}

function open(folder: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return folder
}

/** The owner of the folder of an earlier start. Root only if that start was killed before it changed the owner. */
function ownerOf(folder: string): Runner {
  const { uid, gid } = statSync(folder)
  if (uid !== 0) return { uid, gid }
  const runner = defaultRunner()
  giveTo(runner, folder)
  return runner
}

/** Syncs a file, or the names in a folder, to the disk. */
export function syncFile(path: string): void {
  const file = openSync(path, "r")
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

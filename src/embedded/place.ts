import { spawnSync } from "node:child_process"
import { randomInt } from "node:crypto"
import * as fs from "node:fs"
import { join } from "node:path"

/** The user that Postgres runs as when the gateway is root, which Postgres refuses to be (D79). */
interface ProcessUser {
  readonly uid: number
  readonly gid: number
}

/** The location of a data directory's cluster, and the user who runs it. */
export interface ClusterPlace {
  /** A root's is root's own, and only the runner may pass through it. */
  readonly folder: string
  /** Undefined when the gateway is not root: then Postgres runs as the gateway's own user. */
  readonly runner: ProcessUser | undefined
}

/** In a data directory: the usual place, and the file that names another. */
const INSIDE = "postgres"
const POINTER = "postgres.place"
/** The folder for clusters whose runner cannot enter the data directory. */
const CLOSED_PLACES = "/var/lib/tollgate"
/** User ids that no distribution assigns (systemd, "Users, Groups, UIDs and GIDs on systemd systems"). */
const FIRST_SPARE = 60_706
const LAST_SPARE = 61_183

/** The place of the cluster, below `data_dir`, or where a file there says if the runner cannot enter it. */
export function findPlace(data_dir: string): ClusterPlace {
  const existing = existingPlace(data_dir)
  if (process.geteuid?.() !== 0) return { folder: existing ?? makeInside(data_dir), runner: undefined }
  const runner = runnerFor(existing === null ? undefined : ownerOf(join(existing, "cluster")))
  const folder = existing ?? (reaches(runner, data_dir) ? makeInside(data_dir) : makeElsewhere(data_dir))
  fs.chownSync(folder, 0, runner.gid)
  fs.chmodSync(folder, 0o710)
  return { folder, runner }
}

export function existingPlace(data_dir: string): string | null {
  const [inside, pointer] = [join(data_dir, INSIDE), join(data_dir, POINTER)]
  if (!fs.existsSync(pointer)) return fs.existsSync(inside) ? inside : null
  const named = fs.readFileSync(pointer, "utf8").trim()
  if (fs.existsSync(named)) return named
  throw new Error(
    `the database of ${data_dir} is in ${named}, which no longer exists: restore it, or remove ${pointer}`,
  )
}

function makeInside(data_dir: string): string {
  const folder = join(data_dir, INSIDE)
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  return folder
}

function makeElsewhere(data_dir: string): string {
  fs.mkdirSync(CLOSED_PLACES, { recursive: true })
  fs.chmodSync(CLOSED_PLACES, 0o755)
  const folder = fs.mkdtempSync(join(CLOSED_PLACES, "books-"))
  const pointer = join(data_dir, POINTER)
  fs.writeFileSync(`${pointer}.new`, `${folder}\n`)
  syncFile(`${pointer}.new`)
  fs.renameSync(`${pointer}.new`, pointer)
  return folder
}

/**
 * For a root, the files that the user of an earlier start left in a place: the cluster is given to the runner, everything else is
 * removed, because that user may still write to it. Nothing may work on the cluster. The owner of the cluster's folder
 * changes last, so that a start that was killed is repeated.
 */
export function takeOver({ folder, runner }: ClusterPlace): void {
  if (runner === undefined) return
  for (const name of fs.readdirSync(folder)) {
    const path = join(folder, name)
    const { uid } = fs.lstatSync(path)
    if (uid === 0 || uid === runner.uid || name.startsWith("cluster-")) continue
    if (name === "cluster") run("chown", "-Rh", `--from=${uid}`, `${runner.uid}:${runner.gid}`, path)
    else run("rm", "-rf", path)
  }
}

/** True if the cluster in a place belongs to the user of an earlier start. */
export function isForeign({ folder, runner }: ClusterPlace): boolean {
  return runner !== undefined && (ownerOf(join(folder, "cluster")) ?? runner.uid) !== runner.uid
}

/** The user `tollgate`; without one, a user id that nothing else uses: that of `owner` if it is one. */
function runnerFor(owner: number | undefined): ProcessUser {
  const users = entriesOf("/etc/passwd")
  const [, , uid, gid] = users.find(([name]) => name === "tollgate") ?? []
  if (uid !== undefined) return { uid: Number(uid), gid: Number(gid) }
  const taken = new Set([...users, ...entriesOf("/etc/group")].map(([, , id]) => Number(id)))
  let id = owner ?? 0
  if (id < FIRST_SPARE || id > LAST_SPARE || taken.has(id)) {
    for (const pid of allProcesses()) taken.add(ownerOf(`/proc/${pid}`) ?? 0)
    do id = randomInt(FIRST_SPARE, LAST_SPARE + 1)
    while (taken.has(id))
  }
  return { uid: id, gid: id }
}

/** A user as which initdb runs: it refuses one without a name. The group alone is then the runner's, which alone may enter the place. */
export function namedUser(runner: ProcessUser): ProcessUser {
  const users = entriesOf("/etc/passwd")
  if (users.some(([, , uid]) => Number(uid) === runner.uid)) return runner
  const [, , uid = runner.uid] = users.find(([name]) => name === "nobody") ?? []
  return { uid: Number(uid), gid: runner.gid }
}

function entriesOf(file: string): string[][] {
  const lines = fs.readFileSync(file, "utf8").split("\n")
  return lines.filter((line) => line !== "").map((line) => line.split(":"))
}

function ownerOf(path: string): number | undefined {
  return fs.statSync(path, { throwIfNoEntry: false })?.uid
}

/** True if `runner` may enter the folder or run the program `path`. Asks the kernel, so every permission counts. */
export function reaches(runner: ProcessUser | undefined, path: string): boolean {
  if (runner === undefined) return true
  return spawnSync("/bin/sh", ["-c", 'test -x "$0"', path], { ...runner, cwd: "/" }).status === 0
}

/** Runs a program of the system that works on whole trees and follows no link in them. */
export function run(program: "chmod" | "chown" | "cp" | "rm", ...args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(program, args, { encoding: "utf8" })
  if (status !== 0) throw new Error(`${program} failed: ${error?.message ?? stderr.trim()}`)
}

export function allProcesses(): number[] {
  return fs.readdirSync("/proc").map(Number).filter(Boolean)
}

/** A file of a process in /proc (proc(5)); empty if the process has ended. */
export function readProcess(pid: number, file: "comm" | "cmdline"): string {
  try {
    return fs.readFileSync(`/proc/${pid}/${file}`, "utf8")
  } catch {
    return ""
  }
}

export function syncFile(path: string): void {
  const file = fs.openSync(path, "r")
  fs.fsyncSync(file)
  fs.closeSync(file)
}

import { spawnSync } from "node:child_process"
import { chownSync, lchownSync, readdirSync, readFileSync } from "node:fs"
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

/** Makes `folder` and all in it the runner's; the folder. */
export function giveTo(runner: Runner | undefined, folder: string): string {
  if (runner === undefined) return folder
  const { uid, gid } = runner
  chownSync(folder, uid, gid)
  for (const entry of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    lchownSync(join(folder, entry), uid, gid)
  }
  return folder
}

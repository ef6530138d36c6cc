import { spawn } from "node:child_process"
import { chownSync, existsSync, mkdtempSync, readdirSync, renameSync, statSync } from "node:fs"
import { join } from "node:path"
import { namedUser, type Place, type Runner, run, syncFile } from "./place.ts"
import { allProcesses, readProcess } from "./processes.ts"
import { findPrograms, spawnFailure } from "./programs.ts"

/** The folder of a Postgres cluster, in Postgres' own words its data directory. */
export interface Cluster {
  readonly folder: string
  /**
   * Part of the title of each of the cluster's processes. The title is the only thing about a process that every user
   * may read in every container: a root without CAP_SYS_PTRACE cannot see another user's working folder.
   */
  readonly name: string
}

/** The superuser of every cluster, and the gateway's role. */
export const USER = "tollgate"

const UNFINISHED = "cluster-unfinished-"
const POLL_MS = 20

/**
 * The cluster of `place`, created if there is none. A cluster under its final name is always complete, whenever a start
 * was killed.
 */
export async function openCluster(place: Place, durable: boolean): Promise<Cluster> {
  const folder = folderOf(place.folder)
  if (!existsSync(folder)) await setUp(place, folder, durable)
  return clusterIn(folder)
}

/** The cluster in the folder of a place; null if there is none. */
export function existingCluster(place_folder: string): Cluster | null {
  const folder = folderOf(place_folder)
  return existsSync(folder) ? clusterIn(folder) : null
}

function folderOf(place_folder: string): string {
  return join(place_folder, "cluster")
}

function clusterIn(folder: string): Cluster {
  const { dev, ino } = statSync(folder)
  return { folder, name: `tollgate-${dev}-${ino}` }
}

async function setUp(place: Place, folder: string, durable: boolean): Promise<void> {
  for (const entry of readdirSync(place.folder))
    if (entry.startsWith(UNFINISHED)) await removeUnfinished(join(place.folder, entry))
  const { runner } = place
  const user = runner && namedUser(runner)
  const unfinished = mkdtempSync(join(place.folder, UNFINISHED))
  if (user !== undefined) chownSync(unfinished, user.uid, user.gid)
  // The builtin provider sorts and folds by Unicode code points on every machine, whatever locales it has.
  const locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
  const access = [`--username=${USER}`, "--auth-local=trust", "--auth-host=reject"]
  const sync = durable ? [] : ["--no-sync"]
  await runInitdb(place, user, [`--pgdata=${unfinished}`, ...locale, ...access, ...sync])
  if (runner !== undefined) run("chown", "-Rh", `${runner.uid}:${runner.gid}`, unfinished)
  renameSync(unfinished, folder)
  if (durable) syncFile(place.folder)
}

/** Removes what a killed start has left. Its initdb may still run: it would go on writing there. */
async function removeUnfinished(folder: string): Promise<void> {
  const working = () => allProcesses().filter((pid) => readProcess(pid, "cmdline").includes(folder))
  for (let pids = working(); pids.length > 0; pids = working()) {
    for (const pid of pids) kill(pid)
    await Bun.sleep(POLL_MS)
  }
  run("rm", "-rf", folder)
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL")
  } catch (error) {
    const has_ended = error instanceof Error && "code" in error && error.code === "ESRCH"
    if (!has_ended) throw error
  }
}

function runInitdb(place: Place, user: Runner | undefined, args: readonly string[]): Promise<void> {
  const { initdb, env } = findPrograms(place)
  const child = spawn(initdb, args, { ...user, cwd: "/", env, stdio: ["ignore", "ignore", "pipe"] })
  let complaint = ""
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    complaint += text
  })
  return new Promise((resolve, reject) => {
    child.on("error", (error) => reject(spawnFailure(error)))
    child.on("close", (code) => {
      if (code === 0) resolve()
      else if (complaint.includes("could not look up effective user ID")) {
        reject(new Error("Postgres needs a user with an entry in /etc/passwd: add one or set DATABASE_URL"))
      } else reject(new Error(`initdb failed: ${complaint.trim()}`))
    })
  })
}

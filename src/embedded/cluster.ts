import * as fs from "node:fs"
import { join } from "node:path"
import { allProcesses, type ClusterPlace, namedUser, readProcess, run, syncFile } from "./place.ts"
import { findPrograms, started } from "./programs.ts"

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

export function existingCluster(place_folder: string): Cluster | null {
  const folder = join(place_folder, "cluster")
  const { dev, ino } = fs.statSync(folder, { throwIfNoEntry: false }) ?? {}
  return ino === undefined ? null : { folder, name: `tollgate-${dev}-${ino}` }
}

/** The cluster of `place`, created if there is none. A cluster under its final name is always complete. */
export async function openCluster(place: ClusterPlace, durable: boolean): Promise<Cluster> {
  const existing = existingCluster(place.folder)
  if (existing !== null) return existing
  for (const entry of fs.readdirSync(place.folder))
    if (entry.startsWith(UNFINISHED)) await removeUnfinished(join(place.folder, entry))
  const { runner } = place
  const user = runner && namedUser(runner)
  const unfinished = fs.mkdtempSync(join(place.folder, UNFINISHED))
  if (user !== undefined) fs.chownSync(unfinished, user.uid, user.gid)
  // The builtin provider sorts and folds by Unicode code points on every machine, whatever locales it has.
  const locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
  const access = [`--username=${USER}`, "--auth-local=trust", "--auth-host=reject"]
  const { initdb, env } = findPrograms(place)
  const command = [initdb, `--pgdata=${unfinished}`, ...locale, ...access, ...(durable ? [] : ["--no-sync"])]
  const child = started(() =>
    Bun.spawn(command, { ...user, cwd: "/", env, stdio: ["ignore", "ignore", "pipe"] }),
  )
  const complaint = (await new Response(child.stderr).text()).trim()
  if (complaint.includes("could not look up effective user ID"))
    throw new Error("Postgres needs a user with an entry in /etc/passwd: add one or set DATABASE_URL")
  if ((await child.exited) !== 0) throw new Error(`initdb failed: ${complaint}`)
  if (runner !== undefined) run("chown", "-Rh", `${runner.uid}:${runner.gid}`, unfinished)
  fs.renameSync(unfinished, join(place.folder, "cluster"))
  if (durable) syncFile(place.folder)
  return openCluster(place, durable)
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
    if (readProcess(pid, "comm") !== "") throw error
  }
}

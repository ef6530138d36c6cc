import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs"
import { join } from "node:path"
import { syncFile } from "./durable.ts"
import type { Place } from "./place.ts"
import { noEmbedded, type Programs } from "./programs.ts"
import { giveTo } from "./runner.ts"

/** The superuser of the cluster, and the gateway's role. */
export const USER = "tollgate"

const UNFINISHED = "cluster-unfinished-"

/** The folder of the cluster in `place`, set up if there is none; under its name it is always whole. */
export async function setUpCluster(place: Place, programs: Programs, durable: boolean): Promise<string> {
  const cluster = join(place.folder, "cluster")
  if (existsSync(cluster)) return cluster
  for (const entry of readdirSync(place.folder)) {
    if (entry.startsWith(UNFINISHED)) rmSync(join(place.folder, entry), { recursive: true, force: true })
  }
  const unfinished = giveTo(place.runner, mkdtempSync(join(place.folder, UNFINISHED)))
  // The builtin provider sorts and folds by Unicode code points on every machine, whatever locales it has.
  const locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
  const access = [`--username=${USER}`, "--auth-local=trust", "--auth-host=reject"]
  const sync = durable ? [] : ["--no-sync"]
  await runInitdb(place, programs, [`--pgdata=${unfinished}`, ...locale, ...access, ...sync])
  renameSync(unfinished, cluster)
  if (durable) syncFile(place.folder)
  return cluster
}

function runInitdb(place: Place, programs: Programs, args: readonly string[]): Promise<void> {
  const child = spawn(programs.initdb, args, {
    ...place.runner,
    cwd: "/",
    env: programs.env,
    stdio: ["ignore", "ignore", "pipe"],
  })
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

/** A program that is there and yet not found lacks its loader: another C library than the one it was built for. */
export function spawnFailure(error: NodeJS.ErrnoException): Error {
  return error.code === "ENOENT" ? noEmbedded() : error
}

import * as fs from "node:fs"
import { dirname, join } from "node:path"
import type { Cluster } from "./cluster.ts"
import { allProcesses, type ClusterPlace, readProcess } from "./place.ts"
import { findPrograms, started } from "./programs.ts"

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = fs.constants

export interface PostgresServer {
  readonly pid: number
  readonly socket_folder: string
}

/** Time for crash recovery of a full write-ahead log on a slow disk. */
const READY_MS = 120_000
/** After this a fast shutdown is aborted. Committed data is safe, and the next start recovers. */
const STOP_MS = 30_000
const POLL_MS = 10
/** The longest path of a Unix socket on Linux, in bytes. */
const SOCKET_PATH_BYTES = 107
const SOCKET_NAME = ".s.PGSQL.5432"

export function socketPath({ socket_folder }: Pick<PostgresServer, "socket_folder">): string {
  return join(socket_folder, SOCKET_NAME)
}

/** Below the place if the socket's path fits there, otherwise a short folder that only the runner may enter. */
export function makeSocketFolder({ folder: place_folder, runner }: ClusterPlace): string {
  const inside = join(place_folder, "socket")
  const fits = Buffer.byteLength(socketPath({ socket_folder: inside })) <= SOCKET_PATH_BYTES
  const folder = fits ? inside : fs.mkdtempSync("/tmp/tollgate-")
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  if (runner !== undefined) fs.chownSync(folder, runner.uid, runner.gid)
  return folder
}

/** The server that already runs on `cluster`; undefined if none does. Waits for one that is starting or stopping. */
export async function findServer(cluster: Cluster): Promise<PostgresServer | undefined> {
  const until = Date.now() + READY_MS
  for (;;) {
    const running = processesOf(cluster)
    if (running.length === 0) return undefined
    const status = readStatus(cluster)
    if (status?.is_ready && running.includes(status.server.pid)) return status.server
    if (Date.now() > until) {
      throw new Error(
        `an earlier Postgres on ${cluster.folder} does not respond and does not stop: end its processes (pids ${running.join(", ")})`,
      )
    }
    await Bun.sleep(POLL_MS)
  }
}

/** Starts a server on `cluster`, on which no process works; resolves when it takes connections. */
export async function startServer(
  place: ClusterPlace,
  cluster: Cluster,
  socket_folder: string,
  durable: boolean,
): Promise<PostgresServer> {
  forgetKilledServer(cluster, socket_folder)
  const { postgres, env } = findPrograms(place)
  const log_path = join(place.folder, "server.log")
  // The log of the server before this one, which may say why it died, is kept once.
  if (fs.existsSync(log_path)) fs.renameSync(log_path, `${log_path}.old`)
  const log = fs.openSync(log_path, "wx", 0o600)
  const command = [postgres, "-D", cluster.folder, ...settings(cluster, socket_folder, durable)]
  // A process group of its own: Ctrl-C goes to the gateway's whole group, and the database must stop last.
  const options = { ...place.runner, cwd: "/", env, detached: true }
  const child = started(() => Bun.spawn(command, { ...options, stdio: ["ignore", log, log] }))
  fs.closeSync(log)
  child.unref()
  const until = Date.now() + READY_MS
  while (child.exitCode === null && child.signalCode === null) {
    const status = readStatus(cluster)
    if (status?.is_ready && status.server.pid === child.pid) return status.server
    if (Date.now() > until) {
      child.kill("SIGQUIT")
      throw new Error(`Postgres was not ready after ${READY_MS / 1000} s: see ${log_path}`)
    }
    await Bun.sleep(POLL_MS)
  }
  throw new Error(`Postgres did not start: ${lastWords(log_path)}`)
}

/** Removes the files of a killed server, because Postgres would take any process with its pid for it. */
function forgetKilledServer(cluster: Cluster, socket_folder: string): void {
  const killed = readStatus(cluster)?.server
  fs.rmSync(join(cluster.folder, "postmaster.pid"), { force: true })
  removeSocket(socket_folder)
  if (killed !== undefined && killed.socket_folder !== socket_folder) removeSocketFolder(killed)
}

function removeSocket(socket_folder: string): void {
  const path = socketPath({ socket_folder })
  for (const file of [path, `${path}.lock`]) fs.rmSync(file, { force: true })
}

function removeSocketFolder({ socket_folder }: PostgresServer): void {
  removeSocket(socket_folder)
  try {
    fs.rmdirSync(socket_folder)
  } catch {
    // Gone, or a folder of somebody else's with more in it.
  }
}

/** True if the server's main process runs. Its sessions may run a moment longer. */
export function isRunning(server: PostgresServer, cluster: Cluster): boolean {
  return belongsTo(cluster, server.pid)
}

/** Stops the server of `cluster` with all its processes, and removes its socket folder. */
export async function stopServer(server: PostgresServer, cluster: Cluster): Promise<void> {
  if (isRunning(server, cluster)) process.kill(server.pid, "SIGINT")
  const cut = setTimeout(() => {
    if (isRunning(server, cluster)) process.kill(server.pid, "SIGQUIT")
  }, STOP_MS)
  while (processesOf(cluster).length > 0) await Bun.sleep(POLL_MS)
  clearTimeout(cut)
  removeSocketFolder(server)
}

/** The pids of everything that works on `cluster`: the postmaster, its helpers and its sessions. */
function processesOf(cluster: Cluster): number[] {
  return allProcesses().filter((pid) => belongsTo(cluster, pid))
}

/** The title of a postmaster is its command line, of every other process `postgres: <cluster name>: …`. */
function belongsTo({ name }: Cluster, pid: number): boolean {
  if (readProcess(pid, "comm") !== "postgres\n") return false
  const title = readProcess(pid, "cmdline")
  return title.startsWith(`postgres: ${name}: `) || title.split("\0").includes(`cluster_name=${name}`)
}

/** Reads `postmaster.pid`, which the user of Postgres can write: root accepts only what ours would be. */
function readStatus({ folder }: Cluster): { server: PostgresServer; is_ready: boolean } | undefined {
  let file: number | undefined
  try {
    file = fs.openSync(join(folder, "postmaster.pid"), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    const [pid, , , , socket_folder = "", , , status] = fs.readFileSync(file, "utf8").split("\n")
    const inside = join(dirname(folder), "socket")
    if (socket_folder !== inside && !/^\/tmp\/tollgate-\w+$/.test(socket_folder)) return undefined
    return { server: { pid: Number(pid), socket_folder }, is_ready: status?.trim() === "ready" }
  } catch {
    return undefined
  } finally {
    if (file !== undefined) fs.closeSync(file)
  }
}

/** Why a server ended: the first fatal error in its log, otherwise the whole log. */
function lastWords(log_path: string): string {
  const log = fs.readFileSync(log_path, "utf8").trim()
  return /(?:FATAL|PANIC): +(.*)/.exec(log)?.[1] ?? log
}

/** The settings, as arguments. Only a server that is not `durable` can lose commits at a power failure. */
function settings({ name }: Cluster, socket_folder: string, durable: boolean): string[] {
  const safe = durable ? "on" : "off"
  return [
    // Everyone who can open the socket is trusted, so only the runner's folder leads to it.
    "listen_addresses=",
    `unix_socket_directories=${socket_folder}`,
    "unix_socket_permissions=0700",
    `cluster_name=${name}`,
    `fsync=${safe}`,
    `full_page_writes=${safe}`,
    "synchronous_commit=on",
    // A process uses about twenty, and more while some are being replaced. Up to 16 workers share a server.
    "max_connections=500",
    "shared_buffers=128MB",
    "max_wal_size=1GB",
    // After each checkpoint the log gets full copies of the few hot pages again. A recovery reads max_wal_size at most.
    "checkpoint_timeout=15min",
    // A ledger's pages are in memory: the reading processes of Postgres 18 would only take room.
    "io_method=sync",
    "max_logical_replication_workers=0",
    // Every statement is short: compiling one takes longer than running it.
    "jit=off",
    "timezone=UTC",
    "log_timezone=UTC",
    // The gateway reports failed statements. Here their text and rows would be logged.
    "log_min_messages=log",
    "log_min_error_statement=panic",
    "log_error_verbosity=terse",
    "log_checkpoints=off",
  ].flatMap((setting) => ["-c", setting])
}

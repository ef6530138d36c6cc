import { spawn } from "node:child_process"
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { spawnFailure } from "./cluster.ts"
import type { Place } from "./place.ts"
import type { Programs } from "./programs.ts"
import { giveTo } from "./runner.ts"

/** A running Postgres server. */
export interface Server {
  readonly pid: number
  readonly socket_folder: string
}

/** Crash recovery of a full write-ahead log on a slow disk, with room. */
const READY_MS = 120_000
/** After this a fast shutdown is cut short: what was committed is safe, and the next start recovers. */
const STOP_MS = 30_000
const POLL_MS = 10
/** What Linux takes for the path of a unix socket. */
const SOCKET_PATH_BYTES = 107
const SOCKET_NAME = ".s.PGSQL.5432"

export function socketPath(server: Server): string {
  return join(server.socket_folder, SOCKET_NAME)
}

/**
 * The server that a killed gateway left on `cluster`; undefined when none is left. One that is starting, stopping or
 * losing its last processes is waited for.
 */
export async function findServer(cluster: string): Promise<Server | undefined> {
  const until = Date.now() + READY_MS
  for (;;) {
    const running = processesOf(cluster)
    if (running.length === 0) return undefined
    const status = readStatus(cluster)
    if (status?.is_ready && running.includes(status.server.pid)) return status.server
    if (Date.now() > until) {
      throw new Error(`a Postgres left on ${cluster} neither answers nor ends (pids ${running.join(", ")})`)
    }
    await Bun.sleep(POLL_MS)
  }
}

/** Starts a server on `cluster`, which no process works on; resolves when it takes connections. */
export async function startServer(
  place: Place,
  programs: Programs,
  cluster: string,
  durable: boolean,
): Promise<Server> {
  // Of a server that was killed. Postgres would take any process that now has its pid for it; we know better.
  rmSync(join(cluster, "postmaster.pid"), { force: true })
  const socket_folder = openSocketFolder(place)
  const log_path = join(place.folder, "server.log")
  const log = openSync(log_path, "w", 0o600)
  const child = spawn(programs.postgres, ["-D", cluster, ...settings(cluster, socket_folder, durable)], {
    ...place.runner,
    cwd: "/",
    env: programs.env,
    // A process group of its own: Ctrl-C goes to the whole group of the gateway, and the books close last.
    detached: true,
    stdio: ["ignore", log, log],
  })
  closeSync(log)
  child.unref()
  let failure: Error | undefined
  child.on("error", (error) => {
    failure = spawnFailure(error)
  })
  child.on("exit", () => {
    failure = new Error(`Postgres did not start: ${readFileSync(log_path, "utf8").trim()}`)
  })
  const until = Date.now() + READY_MS
  while (failure === undefined) {
    const status = readStatus(cluster)
    if (status?.is_ready && status.server.pid === child.pid) return status.server
    if (Date.now() > until)
      failure = new Error(`Postgres is not ready after ${READY_MS / 1000} s: see ${log_path}`)
    await Bun.sleep(POLL_MS)
  }
  child.kill("SIGQUIT")
  throw failure
}

/** Stops the server of `cluster` with all its processes, and removes its socket folder. */
export async function stopServer(server: Server, cluster: string): Promise<void> {
  signal(server.pid, "SIGINT")
  const until = Date.now() + STOP_MS
  let is_cut = false
  while (processesOf(cluster).length > 0) {
    if (!is_cut && Date.now() > until) {
      signal(server.pid, "SIGQUIT")
      is_cut = true
    }
    await Bun.sleep(POLL_MS)
  }
  rmSync(server.socket_folder, { recursive: true, force: true })
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended by itself.
  }
}

/** All on the command line, which nothing in the cluster's own files overrides. */
function settings(cluster: string, socket_folder: string, durable: boolean): string[] {
  const entries: Record<string, string | number> = {
    listen_addresses: "",
    unix_socket_directories: socket_folder,
    unix_socket_permissions: "0700",
    cluster_name: clusterName(cluster),
    fsync: durable ? "on" : "off",
    full_page_writes: durable ? "on" : "off",
    synchronous_commit: "on",
    max_connections: 100,
    shared_buffers: "128MB",
    max_wal_size: "1GB",
    // Fewer whole pages in the log, which the same few hot ones would fill; a recovery reads max_wal_size at most.
    checkpoint_timeout: "15min",
    // A ledger's pages are in memory, so the reading processes of Postgres 18 would only take room.
    io_method: "sync",
    max_logical_replication_workers: 0,
    // Every statement is short: compiling it takes longer than running it.
    jit: "off",
    timezone: "UTC",
    log_timezone: "UTC",
    // Failed statements are the gateway's to report; here their text and rows would be written down.
    log_min_messages: "log",
    log_min_error_statement: "panic",
    log_error_verbosity: "terse",
    log_checkpoints: "off",
  }
  return Object.entries(entries).flatMap(([name, value]) => ["-c", `${name}=${value}`])
}

/** Below the place when the socket's path fits there, else a short folder that only the runner may enter. */
function openSocketFolder(place: Place): string {
  const inside = join(place.folder, "socket")
  if (Buffer.byteLength(join(inside, SOCKET_NAME)) > SOCKET_PATH_BYTES) {
    return giveTo(place.runner, mkdtempSync(join(tmpdir(), "tollgate-")))
  }
  mkdirSync(inside, { recursive: true, mode: 0o700 })
  return giveTo(place.runner, inside)
}

/**
 * Names the processes of one cluster in their titles. Postgres' title is all that every user may read of a process in
 * every container: a root without CAP_SYS_PTRACE does not see the folder another user's process works in.
 */
function clusterName(cluster: string): string {
  const { dev, ino } = statSync(cluster)
  return `tollgate-${dev}-${ino}`
}

/** The pids of everything that works on `cluster`: the postmaster, its helpers and its sessions. */
function processesOf(cluster: string): number[] {
  const name = clusterName(cluster)
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry) && isOf(entry, name))
    .map(Number)
}

/** The title of a postmaster is its command line, of every other process `postgres: <cluster name>: …`. */
function isOf(pid: string, name: string): boolean {
  if (readProcess(pid, "comm") !== "postgres\n") return false
  const title = readProcess(pid, "cmdline")
  return title.startsWith(`postgres: ${name}: `) || title.split("\0").includes(`cluster_name=${name}`)
}

function readProcess(pid: string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8")
  } catch {
    return ""
  }
}

/** What Postgres itself keeps in `postmaster.pid`: pid, cluster, start, port, socket folder, address, memory, status. */
function readStatus(cluster: string): { server: Server; is_ready: boolean } | undefined {
  let lines: string[]
  try {
    lines = readFileSync(join(cluster, "postmaster.pid"), "utf8").split("\n")
  } catch {
    return undefined
  }
  const [pid, , , , socket_folder, , , status] = lines
  if (pid === undefined || socket_folder === undefined) return undefined
  return { server: { pid: Number(pid), socket_folder }, is_ready: status?.trim() === "ready" }
}

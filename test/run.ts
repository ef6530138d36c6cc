import { spawn } from "node:child_process"
import { once } from "node:events"
import {
  accessSync,
  chmodSync,
  existsSync,
  constants as fileRights,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from "node:fs"
import { constants, tmpdir } from "node:os"
import { join } from "node:path"
import type { Writable } from "node:stream"
import { startEmbedded } from "../src/embedded/embedded.ts"
import { CLUSTER_VARIABLE, makeTables } from "./support/database.ts"
import { bundlePrograms, PROGRAMS_VARIABLE } from "./support/programs.ts"

/**
 * The parent of a test run: `bun run test [bun's own options and path filters]`. It owns the one Postgres that the
 * tests share, because `bun test` runs neither its hooks nor its exit handlers in every case.
 */

/** Room for a busy machine. Bun reads no such setting from bunfig.toml. */
const TEST_TIMEOUT_MS = 120_000
/** Processes that run test files at a time: a third of their time most files wait for clocks and sockets. */
const FILES = 4

/** A file system in memory that Linux usually has. */
const MEMORY = "/dev/shm"
/** Bytes of free memory from which on a run keeps its files there: many times what they take. */
const ROOM = 8 * 2 ** 30

const folder = inMemory() ?? makeFolder(tmpdir())
/** What a test leaves in the temporary folder goes with the run. */
const scratch = join(folder, "tmp")
mkdirSync(scratch, { mode: 0o755 })
const guarded = guard(folder)
const embedded = await startEmbedded({
  data_dir: folder,
  log: { info() {}, warn: console.error, error: console.error },
  durable: false,
})
await makeTables(embedded.address.socket_path)
const programs = join(folder, "programs")
await bundlePrograms(programs)
const { output, code } = await runTests(embedded.address.socket_path, guarded)
await embedded.stop()
rmSync(folder, { recursive: true, force: true })
console.log(summary(output, code))
process.exit(code)

function makeFolder(within: string): string {
  const made = mkdtempSync(join(within, "tollgate-run-"))
  // As root, Postgres' user must be able to enter it.
  chmodSync(made, 0o755)
  return made
}

/**
 * A folder in memory; null where `TMPDIR` says another place, where there is no room, and where no program may be run. Each
 * new database is 500 files. An ext4 without a journal makes no file in place of one that was deleted in the last minutes,
 * and looks at all of these for each new one: a quarter of the processor time of a run.
 */
function inMemory(): string | null {
  if (process.env.TMPDIR !== undefined || process.availableMemory() < ROOM || !existsSync(MEMORY)) return null
  const { bavail, bsize } = statfsSync(MEMORY)
  if (bavail * bsize < ROOM) return null
  const made = makeFolder(MEMORY)
  const program = join(made, "program")
  writeFileSync(program, "", { mode: 0o755 })
  try {
    accessSync(program, fileRights.X_OK)
    return made
  } catch {
    rmSync(made, { recursive: true })
    return null
  }
}

/**
 * Cleans up when this process is killed: the pipe to the shell then closes, as it does at every other end, when there
 * is nothing left to do. The first line that comes through the pipe is the process group of the tests. What was being
 * set up goes on for a moment in what is removed.
 */
function guard(data_dir: string): Writable {
  const script = `
    read -r tests
    cat
    [ -d "$1" ] || exit
    kill -s KILL -- "-$tests"
    read -r pid < "$1/postgres/cluster/postmaster.pid" && kill -s INT "$pid"
    while [ -e "$1/postgres/cluster/postmaster.pid" ]; do sleep 0.1; done
    until rm -rf "$1"; do sleep 0.1; done`
  const shell = spawn("/bin/sh", ["-c", script, "guard", data_dir], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  })
  shell.unref()
  return shell.stdin
}

/** Runs the tests beneath this process; what they print on standard error, which ends in Bun's own count, is kept. */
async function runTests(cluster: string, guarded: Writable): Promise<{ output: string; code: number }> {
  const color = process.stderr.isTTY && process.env.NO_COLOR === undefined ? { FORCE_COLOR: "1" } : {}
  const ours = {
    [CLUSTER_VARIABLE]: cluster,
    [PROGRAMS_VARIABLE]: programs,
    TMPDIR: scratch,
    BUN_CONFIG_MAX_HTTP_REQUESTS: "65535",
  }
  // Loading the modules anew for each file takes a quarter of the time of a run.
  const options = [
    `--timeout=${TEST_TIMEOUT_MS}`,
    `--parallel=${FILES}`,
    `--preload=${join(import.meta.dir, "support", "seed.ts")}`,
    "--no-isolate",
    ...process.argv.slice(2),
  ]
  const child = spawn(process.execPath, ["test", ...options], {
    env: { ...process.env, ...color, ...ours },
    // A process group of its own, with which everything ends that a test forgets.
    detached: true,
    stdio: ["ignore", "inherit", "pipe"],
  })
  const { pid } = child
  if (pid === undefined) throw new Error("bun test was not started")
  guarded.write(`${pid}\n`)
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal))
  let output = ""
  child.stderr.on("data", (bytes: Buffer) => {
    process.stderr.write(bytes)
    output = (output + bytes.toString()).slice(-10_000)
  })
  const closed = once(child, "close")
  const [code, signal]: (number | NodeJS.Signals | null)[] = await once(child, "exit")
  killGroup(pid)
  await closed
  return { output, code: typeof signal === "string" ? 128 + constants.signals[signal] : Number(code) }
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL")
  } catch {
    // The tests left nobody behind.
  }
}

/** One plain line for whoever reads the log; a run that failed without a failed test counts as one. */
function summary(output: string, code: number): string {
  const count = (word: string) =>
    Number(new RegExp(`^ *(\\d+) ${word}$`, "m").exec(Bun.stripANSI(output))?.[1] ?? 0)
  const failed = count("fail")
  return `${count("pass")} passed, ${code === 0 ? failed : Math.max(failed, 1)} failed`
}

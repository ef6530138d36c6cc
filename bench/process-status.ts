import { readdirSync, readFileSync } from "node:fs"

/** Linux reports CPU time in ticks of 1/100 s, whatever the kernel uses. */
const MS_PER_TICK = 10
const BYTES_PER_KB = 1024

/** CPU milliseconds, user and system: of this process, of the target with all its processes, and of each Postgres of it. */
export interface CpuTimes {
  readonly load: number
  readonly target: number
  readonly postgres: number[]
}

/** The processes of a target: its first one, and the first one of each Postgres. */
export interface Processes {
  readonly pid: number
  readonly postgres_pids: readonly number[]
}

/** CPU time since these processes started. */
export function cpuTimes({ pid, postgres_pids }: Processes): CpuTimes {
  return {
    load: parseCpu(statOf(process.pid)).own_ms,
    target: treeCpuMs(pid, postgres_pids),
    postgres: postgres_pids.map((postgres_pid) => treeCpuMs(postgres_pid, [])),
  }
}

export function spent(before: CpuTimes, after: CpuTimes): CpuTimes {
  return {
    load: after.load - before.load,
    target: after.target - before.target,
    postgres: after.postgres.map((ms, at) => ms - (before.postgres[at] ?? 0)),
  }
}

/** The first processes of each Postgres whose data are in `folder` or below. */
export function postgresPids(folder: string): number[] {
  const paths = [...new Bun.Glob("**/postmaster.pid").scanSync({ cwd: folder, absolute: true })]
  // Postgres writes its pid as the first line.
  return paths.map((path) => Number(readFileSync(path, "latin1").split("\n")[0]))
}

export function residentBytes(pid: number): number {
  return parseResidentBytes(readFileSync(`/proc/${pid}/status`, "latin1"))
}

/** CPU of a process and all its descendants, those that have ended included, without the trees of `except`. */
function treeCpuMs(pid: number, except: readonly number[]): number {
  const { own_ms, ended_ms } = parseCpu(statOf(pid))
  const children = childrenOf(pid).filter((child) => !except.includes(child))
  return children.reduce((sum, child) => sum + treeCpuMs(child, except), own_ms + ended_ms)
}

function childrenOf(pid: number): number[] {
  return unlessEnded([], () =>
    readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, "latin1").split(" ").filter(Boolean).map(Number),
    ),
  )
}

function statOf(pid: number): string {
  return unlessEnded("", () => readFileSync(`/proc/${pid}/stat`, "latin1"))
}

/** A process may end while its tree is read: its parent then counts what it used. */
function unlessEnded<T>(otherwise: T, read: () => T): T {
  try {
    return read()
  } catch {
    return otherwise
  }
}

/** Fields 14 to 17 of proc(5): a process' own time, and that of its children that have ended. The second field may have spaces. */
export function parseCpu(stat: string): { readonly own_ms: number; readonly ended_ms: number } {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  const ms = (from: number) => (Number(fields[from] ?? 0) + Number(fields[from + 1] ?? 0)) * MS_PER_TICK
  return { own_ms: ms(11), ended_ms: ms(13) }
}

export function parseResidentBytes(status: string): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * BYTES_PER_KB
}

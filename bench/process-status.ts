import { readdirSync, readFileSync } from "node:fs"

/** Linux reports CPU time in ticks of 1/100 s, whatever the kernel uses. */
const MS_PER_TICK = 10
const BYTES_PER_KB = 1024

/** CPU milliseconds, user and system: of the load generator, of the target with all its processes, and of the target's Postgres. */
export interface CpuTimes {
  readonly load: number
  readonly target: number
  readonly postgres: number
}

/** The processes of a target: its first one, and the first one of its Postgres; null when there is none. */
export interface Processes {
  readonly pid: number | null
  readonly postgres_pid: number | null
  /** The load generator; without it this process. */
  readonly load_pid?: number
}

/** CPU time since these processes started. */
export function cpuTimes({ pid, postgres_pid, load_pid = process.pid }: Processes): CpuTimes {
  return {
    load: parseCpu(statOf(load_pid)).own_ms,
    target: pid === null ? 0 : treeCpuMs(pid, postgres_pid),
    postgres: postgres_pid === null ? 0 : treeCpuMs(postgres_pid, null),
  }
}

export function spent(before: CpuTimes, after: CpuTimes): CpuTimes {
  return {
    load: after.load - before.load,
    target: after.target - before.target,
    postgres: after.postgres - before.postgres,
  }
}

/** The first process of the Postgres whose data are in `folder` or below; null when none runs there. */
export function postgresPid(folder: string): number | null {
  const [path] = new Bun.Glob("**/postmaster.pid").scanSync({ cwd: folder, absolute: true })
  if (path === undefined) return null
  // Postgres writes its pid as the first line.
  return Number(readFileSync(path, "latin1").split("\n")[0])
}

export function residentBytes(pid: number): number {
  return parseResidentBytes(readFileSync(`/proc/${pid}/status`, "latin1"))
}

/** CPU of a process and all its descendants, those that have ended included, without the tree of `except`. */
function treeCpuMs(pid: number, except: number | null): number {
  const { own_ms, ended_ms } = parseCpu(statOf(pid))
  const children = childrenOf(pid).filter((child) => child !== except)
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

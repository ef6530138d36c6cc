import { readFileSync } from "node:fs"

/** Linux tells CPU time to user space in these, whatever the kernel counts in. */
const MS_PER_TICK = 10
const BYTES_PER_KB = 1024

/** CPU time, user and system, that a process has taken since its start, all its threads together. */
export function cpuMs(pid: number): number {
  return parseCpuMs(readFileSync(`/proc/${pid}/stat`, "latin1"))
}

/** Memory of a process that is in RAM. */
export function residentBytes(pid: number): number {
  return parseResidentBytes(readFileSync(`/proc/${pid}/status`, "latin1"))
}

/** Fields 14 and 15 of proc(5); the second one may have spaces and parentheses in it. */
export function parseCpuMs(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK
}

export function parseResidentBytes(status: string): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * BYTES_PER_KB
}

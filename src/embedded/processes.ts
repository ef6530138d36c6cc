import { readdirSync, readFileSync } from "node:fs"

/** The pids of all processes that this one can see. */
export function allProcesses(): number[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
}

/** A file of a process in /proc (proc(5)); empty if the process has ended. */
export function readProcess(pid: number, file: "comm" | "cmdline"): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8")
  } catch {
    return ""
  }
}

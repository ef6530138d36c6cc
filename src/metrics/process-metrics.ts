import { readdirSync, readFileSync } from "node:fs"
import { monitorEventLoopDelay } from "node:perf_hooks"
import type { Registry } from "./registry.ts"

/** The sampling interval of the event loop's lag. 10 ms would wake an idle process 100 times per second. */
const LAG_SAMPLE_MS = 50

/** Metrics of the process, with the names that prom-client gives them. */
export function processMetrics(registry: Registry): void {
  for (const [prefix, kind, read] of CPU) {
    const help = `Total ${kind} CPU time spent in seconds.`
    const seconds = () => read(process.cpuUsage()) / 1e6
    registry.gauge(`process_cpu_${prefix}seconds_total`, help, seconds, "counter")
  }
  const started_s = Math.round(Date.now() / 1_000 - process.uptime())
  const help = "Start time of the process since unix epoch in seconds."
  registry.gauge("process_start_time_seconds", help, () => started_s)
  if (process.platform === "linux") linuxMetrics(registry)
  lagMetrics(registry)
  for (const [name, kind, help] of HEAP)
    registry.gauge(`nodejs_${name}_bytes`, help, () => process.memoryUsage()[kind])
  const { version } = process
  registry.gauges("nodejs_version_info{version,major,minor,patch}", "Node.js version info.", () => [
    [1, version, ...version.slice(1).split(".")],
  ])
}

const CPU = [
  ["user_", "user", ({ user }: NodeJS.CpuUsage) => user],
  ["system_", "system", ({ system }: NodeJS.CpuUsage) => system],
  ["", "user and system", ({ user, system }: NodeJS.CpuUsage) => user + system],
] as const
const HEAP = [
  ["heap_size_total", "heapTotal", "Process heap size from Node.js in bytes."],
  ["heap_size_used", "heapUsed", "Process heap size used from Node.js in bytes."],
  ["external_memory", "external", "Node.js external memory size in bytes."],
] as const

function linuxMetrics(registry: Registry): void {
  const memory = [
    ["resident_memory", "Resident memory size", /^VmRSS:\s+(\d+)/m],
    ["virtual_memory", "Virtual memory size", /^VmSize:\s+(\d+)/m],
    ["heap", "Process heap size", /^VmData:\s+(\d+)/m],
  ] as const
  for (const [name, what, line] of memory)
    registry.gauge(`process_${name}_bytes`, `${what} in bytes.`, () => 1_024 * numberIn("status", line))
  // Without the descriptor that reads the folder.
  const open = () => readdirSync("/proc/self/fd").length - 1
  registry.gauge("process_open_fds", "Number of open file descriptors.", open)
  const most = () => numberIn("limits", /^Max open files\s+(\d+)/m)
  registry.gauge("process_max_fds", "Maximum number of open file descriptors.", most)
}

function numberIn(file: string, line: RegExp): number {
  return Number(line.exec(readFileSync(`/proc/self/${file}`, "utf8"))?.[1])
}

/** Since the last scrape; the lag of this moment is that at the last scrape. */
function lagMetrics(registry: Registry): void {
  const delays = monitorEventLoopDelay({ resolution: LAG_SAMPLE_MS })
  delays.enable()
  let lag_s = 0
  registry.gauge("nodejs_eventloop_lag_seconds", "Lag of event loop in seconds.", () => {
    const scheduled_ms = performance.now()
    setImmediate(() => {
      lag_s = (performance.now() - scheduled_ms) / 1_000
    })
    return lag_s
  })
  const max = "The maximum recorded event loop delay."
  registry.gauge("nodejs_eventloop_lag_max_seconds", max, () => delays.max / 1e9)
  for (const rank of [50, 90, 99]) {
    const help = `The ${rank}th percentile of the recorded event loop delays.`
    registry.gauge(`nodejs_eventloop_lag_p${rank}_seconds`, help, () => {
      const lag_ns = delays.percentile(rank)
      if (rank === 99) delays.reset()
      return lag_ns / 1e9
    })
  }
}

import { readdirSync, readFileSync } from "node:fs"
import { monitorEventLoopDelay } from "node:perf_hooks"
import type { Registry } from "./registry.ts"

/** The sampling interval of the event loop's lag. 10 ms would wake an idle process 100 times per second. */
const LAG_SAMPLE_MS = 50

export function processMetrics(registry: Registry): void {
  registry.gauge("process_cpu_user_seconds_total", () => process.cpuUsage().user / 1e6)
  registry.gauge("process_cpu_system_seconds_total", () => process.cpuUsage().system / 1e6)
  registry.gauge("process_cpu_seconds_total", () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  })
  const started_s = Math.round(Date.now() / 1_000 - process.uptime())
  registry.gauge("process_start_time_seconds", () => started_s)
  if (process.platform === "linux") linuxMetrics(registry)
  lagMetrics(registry)
  registry.gauge("nodejs_heap_size_total_bytes", () => process.memoryUsage().heapTotal)
  registry.gauge("nodejs_heap_size_used_bytes", () => process.memoryUsage().heapUsed)
  registry.gauge("nodejs_external_memory_bytes", () => process.memoryUsage().external)
  const { version } = process
  const info = [[1, version, ...version.slice(1).split(".")]] as const
  registry.gauges("nodejs_version_info{version,major,minor,patch}", () => info)
}

function linuxMetrics(registry: Registry): void {
  registry.gauge("process_resident_memory_bytes", () => 1_024 * numberIn("status", /^VmRSS:\s+(\d+)/m))
  registry.gauge("process_virtual_memory_bytes", () => 1_024 * numberIn("status", /^VmSize:\s+(\d+)/m))
  registry.gauge("process_heap_bytes", () => 1_024 * numberIn("status", /^VmData:\s+(\d+)/m))
  // Without the descriptor that reads the folder.
  const open = () => readdirSync("/proc/self/fd").length - 1
  registry.gauge("process_open_fds", open)
  registry.gauge("process_max_fds", () => numberIn("limits", /^Max open files\s+(\d+)/m))
}

function numberIn(file: string, line: RegExp): number {
  return Number(line.exec(readFileSync(`/proc/self/${file}`, "utf8"))?.[1])
}

/** Since the last scrape; the lag of this moment is that at the last scrape. */
function lagMetrics(registry: Registry): void {
  const delays = monitorEventLoopDelay({ resolution: LAG_SAMPLE_MS })
  delays.enable()
  let lag_s = 0
  registry.gauge("nodejs_eventloop_lag_seconds", () => {
    const scheduled_ms = performance.now()
    setImmediate(() => {
      lag_s = (performance.now() - scheduled_ms) / 1_000
    })
    return lag_s
  })
  registry.gauge("nodejs_eventloop_lag_max_seconds", () => delays.max / 1e9)
  registry.gauge("nodejs_eventloop_lag_p50_seconds", () => delays.percentile(50) / 1e9)
  registry.gauge("nodejs_eventloop_lag_p90_seconds", () => delays.percentile(90) / 1e9)
  registry.gauge("nodejs_eventloop_lag_p99_seconds", () => {
    const lag_ns = delays.percentile(99)
    delays.reset()
    return lag_ns / 1e9
  })
}

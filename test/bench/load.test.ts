import { afterAll, describe, expect, test } from "bun:test"
import { type AnswerSpec, streamEvents, streamOf } from "../../bench/answer-spec.ts"
import type { Arrival, Job } from "../../bench/job.ts"
import { Latencies } from "../../bench/latencies.ts"
import { load } from "../../bench/load.ts"
import { cpuTimes, parseCpu, parseResidentBytes, spent } from "../../bench/process-status.ts"
import { startProvider } from "../../bench/provider.ts"

const specs = {
  json: { kind: "json", content_bytes: 40, delay_ms: 0 },
  slow: { kind: "json", content_bytes: 40, delay_ms: 30 },
  stream: streamOf(20),
  paced: streamOf(30, { per_second: 100, lean: true }),
} satisfies Record<string, AnswerSpec>
const provider = startProvider(specs)
afterAll(() => provider.stop(true))

function job(spec: keyof typeof specs, arrival: Arrival, changes: Partial<Job> = {}): Job {
  return {
    port: provider.port ?? 0,
    path: `/${spec}/v1/chat/completions`,
    headers: { "x-request-id": "counted" },
    body: "{}",
    stream: streamEvents(specs[spec]),
    arrival,
    warm_ms: 0,
    pid: process.pid,
    postgres_pids: [],
    ...changes,
  }
}

describe("a closed load", () => {
  test("makes as many calls as it is asked to", async () => {
    const report = await load(job("json", { kind: "calls", connections: 4, calls: 50 }))
    expect(report).toMatchObject({ calls: 50, events: 0, failures: {} })
  })

  test("goes on for its time; what it warmed up with is not measured", async () => {
    const report = await load(
      job("slow", { kind: "closed", connections: 2, duration_ms: 200 }, { warm_ms: 100 }),
    )
    expect(report.measured_ms).toBe(200)
    expect(report.calls).toBeWithin(1, 2 * Math.ceil(200 / 30) + 1)
  })

  test("a stream is counted event by event, to its end", async () => {
    const report = await load(job("stream", { kind: "calls", connections: 1, calls: 3 }))
    // Each has a role, 20 contents, a finish reason, the usage and [DONE].
    expect(report).toMatchObject({ calls: 3, events: 3 * 24, failures: {} })
    expect(Latencies.decode(report.ttft).count).toBe(3)
    expect(Latencies.decode(report.inter_chunk).count).toBe(3 * 23)
  })

  test("a stream that ends early is a failure", async () => {
    const stream = { events: 25, first_output: 2 }
    const report = await load(job("stream", { kind: "calls", connections: 1, calls: 2 }, { stream }))
    expect(report).toMatchObject({ calls: 0, failures: { "stream without an end": 2 } })
  })

  test.each([
    ["a status", "nothing", "status 404"],
    ["nobody there", null, "no connection"],
  ])("%s is a failure, told by its name", async (_name, path, what) => {
    const port = path === null ? 1 : (provider.port ?? 0)
    const report = await load(
      job("json", { kind: "calls", connections: 1, calls: 2 }, { port, path: `/${path ?? ""}` }),
    )
    expect(report).toMatchObject({ calls: 0, failures: { [what]: 2 } })
  })
})

test("streams held open are measured while all of them run", async () => {
  const arrival: Arrival = { kind: "held", connections: 10, opened_per_second: 200, window_ms: 100 }
  const report = await load(job("paced", arrival))
  expect(report).toMatchObject({ failures: {} })
  expect(report.measured_ms).toBeGreaterThan(90)
  // 10 streams, at most 100 events a second each: fewer on a busy machine.
  expect(report.events / report.measured_ms).toBeWithin(0.1, 1.5)
  expect(Latencies.decode(report.ttft).count).toBe(0)
})

test("a process' CPU and memory are read as Linux writes them", () => {
  const stat = "4152 (a (b) c) S 1 4152 4152 0 -1 4194304 5000 0 12 0 123 45 6 7 20 0 12 0 460 1"
  expect(parseCpu(stat)).toEqual({ own_ms: 1680, ended_ms: 130 })
  expect(parseResidentBytes("Name:\tbun\nVmPeak:\t  9 kB\nVmRSS:\t   2048 kB\n")).toBe(2 * 1024 * 1024)
})

test("CPU is that of a process and all below it, of the load generator and of Postgres apart", async () => {
  const loop = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done &"
  const parent = Bun.spawn(["sh", "-c", `${loop} sleep 60 & echo $!; wait %1; echo done; read line`], {
    stdio: ["pipe", "pipe", "ignore"],
  })
  const decoder = new TextDecoder()
  let text = ""
  for await (const part of parent.stdout) {
    text += decoder.decode(part)
    if (text.includes("done")) break
  }
  const sleeper = Number(text.split("\n")[0])
  const all = cpuTimes({ pid: parent.pid, postgres_pids: [] })
  const apart = cpuTimes({ pid: parent.pid, postgres_pids: [sleeper] })
  process.kill(sleeper)
  parent.kill()
  await parent.exited
  // The loop ran in a child that had ended; the sleeper used nothing.
  expect(all.target).toBeGreaterThan(30)
  expect(apart.target).toBeGreaterThanOrEqual(all.target - 10)
  expect(apart.postgres[0]).toBeLessThan(30)
  expect(all.postgres).toEqual([])
  expect(all.load).toBeGreaterThan(0)
  expect(spent({ load: 1, target: 2, postgres: [3, 4] }, { load: 5, target: 7, postgres: [9, 6] })).toEqual({
    load: 4,
    target: 5,
    postgres: [6, 2],
  })
})

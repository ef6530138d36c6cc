import { describe, expect, test } from "bun:test"
import { chmodSync, cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import type { Results } from "../../bench/results.ts"
import { testFolder } from "../support/folder.ts"
import { ROOT } from "../support/repository.ts"

const MAIN = join(ROOT, "bench/main.ts")
const LIMIT_MS = 300_000

/** A folder for everything that a run writes, temporary files included. */
const folder = testFolder()
chmodSync(folder, 0o755)

function bench(name: string, ...args: string[]) {
  const temporary = mkdtempSync(join(folder, `${name}-`))
  chmodSync(temporary, 0o755)
  const child = Bun.spawn([process.execPath, MAIN, ...args], {
    cwd: folder,
    env: { ...process.env, TMPDIR: temporary, BUN_TMPDIR: temporary, BUN_CONFIG_MAX_HTTP_REQUESTS: "65535" },
    stdio: ["ignore", "pipe", "pipe"],
  })
  return { child, leftovers: () => readdirSync(temporary) }
}

describe("bun run bench", () => {
  test(
    "a short run of each kind of scenario: figures, an audit, the results, and nothing left behind",
    async () => {
      const json = join(folder, "run.json")
      const chosen = ["ttft", "shards"].flatMap((name) => ["--only", name])
      const args = ["--quick", ...chosen, "--rounds", "1", "--json", json]
      const { child, leftovers } = bench("run", ...args)
      const [out, code] = [await new Response(child.stdout).text(), await child.exited]
      expect(out).toContain("every charge equal to what the provider counted")
      expect(out).toContain("TTFT of a stream, idle machine")

      const results: Results = JSON.parse(readFileSync(json, "utf8"))
      const [scenario] = results.scenarios
      expect(results).toMatchObject({ kind: "suite", size: "quick", audit: { faults: [] } })
      // Beside other tests a figure may be anything.
      expect(results.faults.filter((fault) => !fault.endsWith(", far off its goal"))).toEqual([])
      expect(code).toBe(results.faults.length === 0 ? 0 : 1)
      expect(results.audit.calls).toBeGreaterThan(300)
      expect(scenario?.figures[0]?.median).toBeNumber()
      for (const target of Object.values(scenario?.sides ?? {})) {
        expect(target.latency_ms.count).toBeGreaterThan(0)
        expect(target.time_to_first_token_ms.p50).toBeGreaterThan(0)
        expect(target.failures).toEqual({})
      }
      // The system counts CPU in steps of 10 ms, which one target may not get beside other tests.
      const counted = Object.values(scenario?.sides ?? {}).map(({ cpu }) => cpu)
      expect(counted).toHaveLength(3)
      expect(counted.reduce((sum, { target_us }) => sum + target_us.median, 0)).toBeGreaterThan(0)
      expect(scenario?.sides.bare?.cpu.postgres_us).toEqual([])
      expect(out).toContain("CPU per call: process ")

      const shards = Object.values(results.scenarios.find(({ name }) => name === "shards")?.sides ?? {})
      expect(shards.map(({ cpu }) => cpu.postgres_us.length)).toEqual([1, 2, 2])
      for (const { throughput_per_s, cpu } of shards) {
        expect(throughput_per_s.min).toBeGreaterThan(0)
        expect(cpu.target_us.min).toBeGreaterThan(0)
        expect(cpu.postgres_us.reduce((sum, { min }) => sum + min, 0)).toBeGreaterThan(0)
      }

      expect(leftovers()).toEqual([])
    },
    LIMIT_MS,
  )

  test.each([
    [
      "ended with all its processes at once",
      ["--quick", "--only", "json-1"],
      (pid: number) => {
        for (const each of [...childrenOf(pid), pid]) process.kill(each, "SIGTERM")
      },
    ],
    [
      "interrupted while it fills a history",
      ["--history", "--calls", "1000000"],
      (pid: number) => process.kill(pid, "SIGINT"),
    ],
  ])(
    "a run that is %s ends all it has started",
    async (_name, args, end) => {
      const { child, leftovers } = bench("cut", ...args)
      const reader = child.stderr.getReader()
      for (let words = ""; !words.includes("[1/"); ) {
        const { value, done } = await reader.read()
        if (done) throw new Error(`it ended by itself: ${words}`)
        words += new TextDecoder().decode(value)
      }
      const started = childrenOf(child.pid)
      end(child.pid)
      expect(await child.exited).toBe(130)
      expect(started.length).toBeGreaterThanOrEqual(args.includes("--history") ? 1 : 5)
      expect(started.filter((pid) => existsSync(`/proc/${pid}/exe`))).toEqual([])
      expect(leftovers()).toEqual([])
    },
    LIMIT_MS,
  )

  test("a name that no scenario has is refused in one line", async () => {
    const { child } = bench("wrong", "--only", "nothing")
    expect(await new Response(child.stderr).text()).toStartWith("bench: --only: expected one of json-128, ")
    expect(await child.exited).toBe(1)
  })
})

test("tollgate bench says where the benchmark is when an installation has none, as in the image", async () => {
  const image = join(folder, "image")
  for (const name of ["src", "package.json"]) cpSync(join(ROOT, name), join(image, name), { recursive: true })
  symlinkSync(join(ROOT, "node_modules"), join(image, "node_modules"))
  const child = Bun.spawn([process.execPath, join(image, "src/cli/main.ts"), "bench", "--quick"], {
    stdio: ["ignore", "pipe", "pipe"],
  })
  expect(await new Response(child.stderr).text()).toContain("The benchmark is not installed here.")
  expect(await child.exited).toBe(1)
})

/** Whatever a process has started and not yet seen the end of. */
function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number),
  )
}

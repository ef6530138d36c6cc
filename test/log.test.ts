import { expect, test } from "bun:test"
import { execFileSync } from "node:child_process"
import { closeSync, constants, mkdtempSync, openSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openLog } from "../src/log.ts"

/** What a pipe takes whole from one of several processes (PIPE_BUF). */
const WHOLE_BYTES = 4_096

test("what is said right before the process ends is written", () => {
  const path = JSON.stringify(join(import.meta.dir, "../src/log.ts"))
  const script = `import { openLog } from ${path}
    const log = openLog("info")
    for (const line of ["first", "middle", "last"]) log.info(line)
    process.exit(0)`
  for (let round = 0; round < 5; round++) {
    const printed = execFileSync(process.execPath, ["-e", script], { encoding: "utf8" })
    const said = printed.trimEnd().split("\n")
    expect(said.map((line) => JSON.parse(line).msg)).toEqual(["first", "middle", "last"])
  }
})

const DROPPED = "lines of the log were dropped: it was not read fast enough"
const LINES = 20_000
const LOG = `import { openLog } from ${JSON.stringify(join(import.meta.dir, "../src/log.ts"))}
  const log = openLog("info")`

/** Runs a script whose standard output is a pipe like that of a container. `read`: begins to read it, until it is closed. */
function withPipe(script: string) {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-log-"))
  const path = join(folder, "pipe")
  execFileSync("mkfifo", [path])
  const written = openSync(path, constants.O_RDWR)
  const unread = openSync(path, constants.O_RDONLY)
  const child = Bun.spawn([process.execPath, "-e", script], {
    stdin: "pipe",
    stdout: written,
    stderr: "pipe",
  })
  closeSync(written)
  const read = () => new Response(Bun.spawn(["cat"], { stdin: unread }).stdout).text()
  const close = () => {
    closeSync(unread)
    rmSync(folder, { recursive: true })
  }
  return { child, read, [Symbol.dispose]: close }
}

test("a log that is not read delays nothing; its later lines are dropped, and their number is logged once it is read", async () => {
  using pipe = withPipe(`${LOG}
    let number = 0
    const write = () => {
      for (let at = 0; at < 20; at++) log.info({ number: number++, text: "x".repeat(100) }, "line")
      if (number < ${LINES}) setImmediate(write)
      else console.error("written")
    }
    write()
    process.stdin.once("data", () => process.exit(0))`)
  await pipe.child.stderr.getReader().read()
  const reading = pipe.read()
  pipe.child.stdin.write("end")
  await pipe.child.stdin.end()
  const lines = (await reading)
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line))
  const dropped = lines.find(({ msg }) => msg === DROPPED)
  expect(dropped.level).toBe(50)
  const numbers = lines.filter(({ msg }) => msg === "line").map(({ number }) => number)
  expect(numbers).toEqual(numbers.map((_, at) => at))
  expect(numbers.length + dropped.lines).toBe(LINES)
})

test("a line that is longer than all that may wait is written whole, and the log goes on", async () => {
  using pipe = withPipe(`${LOG}
    log.info("x".repeat(2_000_000))
    console.error("written")
    process.stdin.once("data", () => {
      log.info("after")
      process.exit(0)
    })`)
  await pipe.child.stderr.getReader().read()
  const reading = pipe.read()
  pipe.child.stdin.write("end")
  await pipe.child.stdin.end()
  const [long = "", next = ""] = (await reading).trimEnd().split("\n")
  expect(JSON.parse(long).msg).toHaveLength(2_000_000)
  expect(JSON.parse(next)).toMatchObject({ lines: 1, msg: DROPPED })
})

test("a process ends although nobody reads its log", async () => {
  using pipe = withPipe(`${LOG}
    for (let at = 0; at < 5_000; at++) log.info("x".repeat(100))
    process.exit(3)`)
  expect(await pipe.child.exited).toBe(3)
})

test("the calls of one turn are written in whole lines, no more at once than stay together among those of other workers", async () => {
  const written: string[] = []
  const log = openLog("info", { worker: 2 }, { write: (text) => void written.push(text) })
  const models = Array.from({ length: 100 }, (_, at) => `model-${at}-${"é".repeat(at)}`)
  for (const model of models) log.call(() => ({ model }))
  expect(written.length).toBeGreaterThan(1)
  await new Promise(setImmediate)
  expect(written.filter((text) => Buffer.byteLength(text) > WHOLE_BYTES || !text.endsWith("\n"))).toEqual([])
  expect(written.length).toBeLessThan(20)
  const lines = written.join("").trimEnd().split("\n")
  expect(lines.map((line) => JSON.parse(line).model)).toEqual(models)
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({ level: 30, worker: 2, msg: "call" })
  await new Promise(setImmediate)
  expect(written.join("").trimEnd().split("\n")).toHaveLength(models.length)
})

import { expect, test } from "bun:test"
import { execFileSync } from "node:child_process"
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

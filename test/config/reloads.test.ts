import { beforeEach, expect, test } from "bun:test"
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Loaded, takeSnapshot } from "../../src/config/load.ts"
import { openLog } from "../../src/log.ts"
import { reloadsOf } from "../../src/start/reloads.ts"
import { testFolder } from "../support/folder.ts"
import { small } from "./small.ts"

const folder = testFolder()

const [first, second] = [join(folder, "first"), join(folder, "second")]
const [name = "", upstream] = Object.entries(small.upstreams)[0] ?? []
const keys = [{ api_key: `\${file:${first}}` }, { api_key: `\${file:${second}}` }]
const text = JSON.stringify({ ...small, upstreams: { [name]: { ...upstream, keys } } })

let lines: string[] = []
/** Why the gateway does not take a configuration now. */
let trouble: Error | null = null
let used: Loaded
let reloads: ReturnType<typeof reloadsOf>

beforeEach(() => {
  lines = []
  trouble = null
  for (const file of [first, second]) writeFileSync(file, "key-1\n")
  const load = () => takeSnapshot(text, { env: {}, readFile: (path) => readFileSync(path, "utf8") })
  used = load()
  reloads = reloadsOf({
    started: used,
    env: {},
    log: openLog("info", {}, { write: (line) => void lines.push(line) }),
    load,
    async apply(next) {
      if (trouble !== null) throw trouble
      used = next
    },
  })
})

const inUse = () => used.config.upstreams[0]?.keys.map(({ api_key }) => api_key)
const warnings = () => lines.filter((line) => line.includes('"level":40'))
async function look(times: number): Promise<void> {
  for (let time = 0; time < times; time++) await reloads.look()
}

test("D82 a changed key file is used once it was read twice", async () => {
  const before = used
  await look(3)
  expect(used).toBe(before)
  writeFileSync(second, "key-")
  await look(1)
  writeFileSync(second, "key-2\n")
  await look(1)
  expect(inUse()).toEqual(["key-1", "key-1"])
  await look(1)
  expect(inUse()).toEqual(["key-1", "key-2"])
  const after = used
  await look(3)
  expect(used).toBe(after)
  expect(lines).toHaveLength(1)
  expect(lines.join()).toContain(second)
})

test.each([
  ["missing", () => rmSync(first)],
  ["empty", () => writeFileSync(first, "\n")],
  ["no key", () => writeFileSync(first, "two secret-words")],
])(
  "D82 a key file that is %s keeps its last key, warns once, and does not stop the others",
  async (_, spoil) => {
    spoil()
    writeFileSync(second, "key-2")
    await look(4)
    expect(inUse()).toEqual(["key-1", "key-2"])
    expect(warnings()).toHaveLength(1)
    expect(warnings().join()).toContain(`"file":"${first}"`)
    writeFileSync(first, "key-3")
    await look(2)
    expect(inUse()).toEqual(["key-3", "key-2"])
    expect(lines.join()).not.toMatch(/secret|key-\d/)
  },
)

test("D82 a key that cannot be taken now is tried again, and warned about once", async () => {
  trouble = new Error("the database is away")
  writeFileSync(first, "key-2")
  await look(5)
  expect(warnings()).toHaveLength(1)
  trouble = null
  await look(1)
  expect(inUse()).toEqual(["key-2", "key-1"])
})

test("a reload after a change begins with what is in the files then", async () => {
  writeFileSync(first, "key-2")
  await Promise.all([reloads.look(), reloads.reload(), reloads.look()])
  expect(inUse()).toEqual(["key-2", "key-1"])
  await look(2)
  expect(lines).toHaveLength(1)
})

import { afterAll, describe, expect, test } from "bun:test"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { parseDemoAccess } from "../../src/demo/access.ts"
import { Workplace } from "../process/workplace.ts"
import { Shell, type } from "./command.ts"

const place = new Workplace()
const shell = new Shell()
const access_path = join(place.data_dir, "demo-access")
let printed = ""
/** The variables of somebody in another terminal, who was told where the data is and nothing else. */
const there = { TOLLGATE_DATA_DIR: place.data_dir }

// What a demo that was killed left, for everybody to read.
mkdirSync(place.data_dir)
writeFileSync(access_path, JSON.stringify({ url: "http://127.0.0.1:1", admin_token: "of yesterday" }))
const { PATH = "", HOME = "/" } = process.env
const child = spawn(join(shell.folder, "tollgate"), ["serve", "--port", "0", "--data-dir", place.data_dir], {
  cwd: place.folder,
  env: { PATH: `${shell.folder}:${PATH}`, HOME, PORT: "1" },
  stdio: ["ignore", "pipe", "inherit"],
})
const listens = Promise.withResolvers<void>()
child.stdout?.setEncoding("utf8").on("data", (text: string) => {
  printed += text
  if (printed.includes("To use real providers")) listens.resolve()
})
child.on("exit", () => listens.reject(new Error(`the demo ended: ${printed}`)))
await listens.promise
afterAll(async () => {
  child.kill("SIGKILL")
  await place.clear()
})

describe("tollgate serve", () => {
  test("is the gateway, in the process that was started", () => {
    const [, pid] = /^tollgate listening on http:\/\/127\.0\.0\.1:\d+ \(pid (\d+)\)$/m.exec(printed) ?? []
    expect(pid).toBe(String(child.pid))
  })

  test("D52 the demo writes its address and token to a file that only its owner can read, and replaces an old one", () => {
    const access = parseDemoAccess(readFileSync(access_path, "utf8"))
    expect(statSync(access_path).mode & 0o777).toBe(0o600)
    expect(printed).toContain(`  address      ${access?.url}\n`)
    expect(printed).toContain(`  admin token  ${access?.admin_token}\n`)
  })

  test.each(["docs", "console"])("what it says is at /%s is there", async (page) => {
    const [, address = ""] = new RegExp(`^  ${page} +(\\S+)$`, "m").exec(printed) ?? []
    expect(address).toEndWith(`/${page}`)
    expect((await fetch(address)).status).toBe(200)
  })

  test("D52 the command line finds it, and the database below it, without another word", async () => {
    const asked = await type(["accounts", "--json"], there)
    const direct = await type(["accounts", "--json", "--database"], there)
    expect(asked).toMatchObject({ code: 0, err: "" })
    expect(JSON.parse(asked.out)).toMatchObject({ data: [{ name: "Demo", balance: "10" }] })
    expect(direct).toEqual(asked)
  })

  test("what its start suggests works as it stands: an account, its money, its key, and its calls", async () => {
    const steps = [...printed.matchAll(/^ {2}(?:npx -y bun@\S+|bun) run tollgate (.*?) {2,}/gm)].map(
      ([, words = ""]) => words,
    )
    expect(steps).toEqual(["accounts create Acme", "credit Acme 25", "keys create Acme", "calls"])
    for (const step of steps) expect(await type(step.split(" "), there)).toMatchObject({ code: 0 })
    const curl = printed.split("\n").find((line) => line.startsWith("curl ")) ?? "false"
    expect((await shell.run(curl)).out).toEndWith("data: [DONE]\n\n")
    const { out } = await type(["calls", "--account", "Demo"], there)
    const [id = ""] = /[0-9a-f-]{36}/.exec(out) ?? []
    expect((await type(["receipt", id], there)).out).toMatch(
      /^outcome +completed, settled, charged by the usage that the provider reported$/m,
    )
  })

  test("D34 ends at a signal as `bun run start` does, and removes the file with its token", async () => {
    const exited = once(child, "exit")
    child.kill("SIGTERM")
    expect(await exited).toEqual([0, null])
    expect(place.files()).toEqual(["data/demo-key", "data/postgres"])
    expect(place.postgres()).toEqual([])
    expect(await type(["accounts"], there)).toMatchObject({
      code: 1,
      err: expect.stringContaining("no admin token for"),
    })
  })

  test.each([
    ["--port http", "PORT: expected an integer from 0 to 65535"],
    ["--workers many", "--workers: expected an integer from 1 to "],
    ["--config gone.yaml", "cannot read the configuration file gone.yaml: no such file or directory\n"],
  ])("a flag is refused as its variable is: %s", async (flags, sentence) => {
    const ended = await shell.run(`tollgate serve ${flags}`)
    expect(ended).toMatchObject({ code: 1, out: "" })
    expect(ended.err).toStartWith(`tollgate: ${sentence}`)
    expect(ended.err.trimEnd().split("\n")).toHaveLength(1)
  })
})

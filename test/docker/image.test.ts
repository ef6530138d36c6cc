import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { readdir, stat } from "node:fs/promises"
import { join } from "node:path"
import { buildImage, type Image, parseDockerfile } from "./image.ts"

const ROOT = join(import.meta.dir, "../..")
const dockerfile = readFileSync(join(ROOT, "Dockerfile"), "utf8")
const instructions = parseDockerfile(dockerfile)
const command: string[] = JSON.parse(instructions.find(({ word }) => word === "CMD")?.rest ?? "[]")
const health: string[] = JSON.parse(
  /CMD (\[.*\])$/.exec(instructions.find(({ word }) => word === "HEALTHCHECK")?.rest ?? "")?.[1] ?? "[]",
)

let image: Image
let gateway: ReturnType<Image["run"]>
let printed: string
let port: string

beforeAll(async () => {
  image = await buildImage(ROOT, dockerfile)
  gateway = image.run(command, { HOST: "127.0.0.1", PORT: "0" })
  printed = await readUntil(gateway, "curl ")
  port = /tollgate listening on http:\/\/127\.0\.0\.1:(\d+) \(pid \d+\)/.exec(printed)?.[1] ?? "none"
})

afterAll(async () => {
  gateway?.kill("SIGTERM")
  await gateway?.exited
  await image?.remove()
})

/** What a process printed, up to the line that holds `mark`. Throws with all it said when it ends before. */
async function readUntil(child: ReturnType<Image["run"]>, mark: string): Promise<string> {
  const reader = child.stdout.getReader()
  const decoder = new TextDecoder()
  let text = ""
  while (!text.slice(text.indexOf(mark)).includes("\n") || !text.includes(mark)) {
    const { done, value } = await reader.read()
    if (done) throw new Error(`the image ended:\n${text}\n${await new Response(child.stderr).text()}`)
    text += decoder.decode(value, { stream: true })
  }
  reader.releaseLock()
  return text
}

describe("the image, built and started without an engine", () => {
  test("listens, and its health check says so", async () => {
    const check = image.run(health, { PORT: port })
    expect(await check.exited).toBe(0)
  })

  test("its health check fails where nothing listens", async () => {
    expect(await image.run(health, { PORT: "1" }).exited).not.toBe(0)
  })

  test("answers a call with the demo's key", async () => {
    const key = /key +(tg_live_\w+)/.exec(printed)?.[1] ?? "none"
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "demo-small", messages: [{ role: "user", content: "Hello" }] }),
    })
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({ object: "chat.completion" })
  })

  test("serves the reference and the console with their assets", async () => {
    const reference = ["/docs", "/docs/json", "/docs/assets/swagger-ui-bundle.js"]
    const console = ["/console", "/console/assets/page.js", "/console/assets/plot.css"]
    for (const path of [...reference, ...console]) {
      expect({ path, status: (await fetch(`http://127.0.0.1:${port}${path}`)).status }).toEqual({
        path,
        status: 200,
      })
    }
  })

  test("has the command line, which finds the demo by itself", async () => {
    const asked = image.run(["bun", "src/cli/main.ts", "accounts", "list"], {})
    const said = await new Response(asked.stdout).text()
    expect(await asked.exited).toBe(0)
    expect(said).toContain("Demo")
  })

  test.skipIf(process.getuid?.() !== 0)(
    "runs as the image's user, who can write to the volume and not to the rest",
    async () => {
      const uids = async (path: string) => (await stat(image.at(path))).uid
      expect(readFileSync(`/proc/${gateway.pid}/status`, "utf8")).toMatch(/^Uid:\t1000\t1000\t1000\t1000$/m)
      expect([await uids("/app"), await uids("/app/src/main.ts"), await uids("/data")]).toEqual([0, 0, 1000])
    },
  )

  test("holds nothing that only development needs", () => {
    const manifest: { devDependencies: object } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"))
    const needed = Object.keys(manifest.devDependencies)
    expect(needed).toContain("fast-check")
    expect(needed.filter((name) => existsSync(image.at(join("/app/node_modules", name))))).toEqual([])
    expect(existsSync(image.at("/app/node_modules/elysia"))).toBeTrue()
  })

  test("D34: ends cleanly on the stop signal, with no database left behind, and has written only to its volume", async () => {
    gateway.kill("SIGTERM")
    expect(await gateway.exited).toBe(0)
    expect(existsSync(image.at("/data/postgres"))).toBeTrue()
    const files = await readdir(image.at("/data"), { recursive: true })
    expect(files.filter((name) => name.endsWith("postmaster.pid"))).toEqual([])
    expect(await readdir(join(image.root, "home")).catch(() => [])).toEqual([])
    expect((await readdir(image.at("/app"))).sort()).toEqual([
      "LICENSE",
      "drizzle",
      "node_modules",
      "package.json",
      "src",
    ])
  })
})

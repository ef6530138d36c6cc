import { describe, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parseDockerfile } from "./image.ts"

const ROOT = join(import.meta.dir, "../..")
const text = readFileSync(join(ROOT, "Dockerfile"), "utf8")
const ignore = readFileSync(join(ROOT, ".dockerignore"), "utf8")
const manifest: { engines: { bun: string } } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"))
const instructions = parseDockerfile(text)
const rests = (word: string) => instructions.filter((one) => one.word === word).map(({ rest }) => rest)
const copied = rests("COPY")
  .filter((rest) => !rest.startsWith("--from"))
  .flatMap((rest) => rest.split(" ").slice(0, -1))

describe("the Dockerfile", () => {
  test("has a stage that installs and a stage that runs, both on the very Bun that package.json names", () => {
    const bases = rests("FROM").map((rest) => rest.split(" ")[0])
    expect(rests("ARG")).toEqual([`BUN_IMAGE=oven/bun:${manifest.engines.bun}-slim`])
    expect(bases).toEqual(["$BUN_IMAGE", "$BUN_IMAGE"])
  })

  test("installs what the lock file says, without what only development needs", () => {
    expect(rests("RUN")).toContain("bun install --frozen-lockfile --production --omit=peer")
  })

  test("runs as a user by number, who is not root", () => {
    expect(rests("USER")).toEqual(["1000:1000"])
    const order = instructions.map(({ word }) => word)
    expect(order.lastIndexOf("RUN")).toBeLessThan(order.indexOf("USER"))
  })

  test("D34: is stopped by SIGTERM, which reaches the gateway itself and no shell", () => {
    expect(rests("STOPSIGNAL")).toEqual(["SIGTERM"])
    expect(JSON.parse(rests("CMD")[0] ?? "null")).toEqual(["bun", "src/main.ts"])
    expect(rests("ENTRYPOINT")).toEqual([])
  })

  test("writes nowhere but in its volume", () => {
    expect(rests("VOLUME")).toEqual(["/data"])
    expect(rests("ENV").join()).toContain("TOLLGATE_DATA_DIR=/data")
  })

  test("asks /readyz for its health with nothing but Bun", () => {
    const command = /CMD (\[.*\])$/.exec(rests("HEALTHCHECK")[0] ?? "")?.[1] ?? "null"
    const [program, flag, script] = JSON.parse(command)
    expect([program, flag]).toEqual(["bun", "-e"])
    expect(script).toContain("/readyz")
  })

  test("copies only what exists, and .dockerignore lets exactly that in", () => {
    expect(copied.filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
    const lines = ignore.split("\n").filter((line) => line !== "" && !line.startsWith("#"))
    expect(lines[0]).toBe("*")
    expect(lines.slice(1).sort()).toEqual([...new Set(copied)].sort().map((path) => `!${path}`))
  })
})

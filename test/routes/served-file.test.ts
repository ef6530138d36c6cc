import { expect, spyOn, test } from "bun:test"
import { randomBytes } from "node:crypto"
import { Elysia } from "elysia"
import type { Model } from "../../src/config/config.ts"
import { docs } from "../../src/routes/reference/reference.ts"
import { fingerprinted, serveFile } from "../../src/routes/served-file.ts"

const MIB = 1024 ** 2
const ANSWERS = 200
const PACKINGS = ["identity", "gzip"] as const

test.each(PACKINGS)("answers with a file (%s) that nobody reads share its bytes", async (packing) => {
  const file = await fingerprinted(new Uint8Array(randomBytes(MIB)).buffer, "text/css")
  const request = new Request("http://localhost/docs", { headers: { "accept-encoding": packing } })
  const before_bytes = process.memoryUsage.rss()
  const answers: Response[] = []
  while (answers.length < ANSWERS) answers.push(await serveFile(request, file, ""))
  expect(process.memoryUsage.rss() - before_bytes).toBeLessThan((ANSWERS / 4) * MIB)
  for (const answer of answers) expect(answer.headers.get("content-type")).toBe("text/css")
})

test("clients that ask for the API reference's document at the same moment get one that is made once", async () => {
  const finds: number[] = []
  for (const clients of [1, 20]) {
    const models: Model[] = []
    const find = spyOn(models, "find")
    const app = new Elysia().use(docs(() => models))
    const ask = async () => (await app.handle(new Request("http://localhost/docs/json"))).text()
    const answers = new Set(await Promise.all(Array.from({ length: clients }, ask)))
    expect([...answers].map((text) => JSON.parse(text).openapi)).toEqual(["3.0.3"])
    finds.push(find.mock.calls.length)
  }
  expect(finds[0]).toBeGreaterThan(0)
  expect(finds[1]).toBe(finds[0] ?? 0)
})

test("a document of the API reference that could not be made is made for the next client", async () => {
  const models: Model[] = []
  spyOn(models, "find").mockImplementationOnce(() => {
    throw new Error("broken")
  })
  const app = new Elysia().use(docs(() => models))
  const ask = async () => (await app.handle(new Request("http://localhost/docs/json"))).status
  expect(await Promise.all([ask(), ask()])).toEqual([500, 500])
  expect(await ask()).toBe(200)
})

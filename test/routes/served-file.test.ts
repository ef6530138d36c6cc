import { expect, test } from "bun:test"
import { randomBytes } from "node:crypto"
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

import { afterAll, expect, test } from "bun:test"
import { statSync } from "node:fs"
import { join } from "node:path"
import { testFolder } from "../support/folder.ts"
import { type } from "./command.ts"

/** `tollgate journal` with an API whose sealed month has two hours, of which the second was changed (D71). */

const seal = {
  sealed_at: "2026-11-08T00:12:31.000Z",
  entries: 9,
  calls: 4,
  charge: "0.5",
  hash: "0123456789abcdef".repeat(4),
}
const attached = { detached_at: null, dropped_at: null, archive: null }
const second = "019a3f2b-1c00-0000-0000-000000000000"
let changed = true
let is_sealed = true
const api = Bun.serve({
  port: 0,
  async fetch(request) {
    if (request.method === "GET")
      return Response.json({
        data: [
          { month: "2026-11", seal: null, ...attached },
          { month: "2026-10", seal: is_sealed ? seal : null, ...attached },
          {
            month: "2026-09",
            seal,
            detached_at: seal.sealed_at,
            dropped_at: seal.sealed_at,
            archive: "s3://old",
          },
        ],
      })
    if (request.url.endsWith("/dump"))
      return Response.json({ lines: ['{"seal":{"month":"2026-10","hash":"00","entries":0}}'], next: null })
    const { month, from }: { month: string; from?: string } = JSON.parse(await request.text())
    if (month !== "2026-10") return new Response(null, { status: 404 })
    return Response.json(
      from === undefined
        ? { entries: 5, matches: true, next: second }
        : { entries: 4, matches: from !== second || !changed, next: null },
    )
  },
})
afterAll(() => api.stop(true))
const folder = testFolder()

const say = (...words: string[]) =>
  type(["journal", ...words], { TOLLGATE_URL: String(api.url), TOLLGATE_ADMIN_TOKEN: "t".repeat(32) })

test("lists months and seals", async () => {
  const { code, out } = await say()
  expect(code).toBe(0)
  expect(out).toContain(seal.hash)
  expect(out).toContain("dropped: s3://old")
  expect(out).not.toMatch(/changed/i)
})

test("--verify fails if one hour of a sealed month differs, and names the month", async () => {
  changed = true
  const { code, out, err } = await say("--verify")
  expect(code).toBe(1)
  expect(out).toContain("CHANGED")
  expect(err).toContain("2026-10: 2 hours checked, 1 differ.")
  expect(err).toContain("changed since they were sealed: 2026-10")
})

test("--verify says that nothing was changed", async () => {
  changed = false
  const { code, out } = await say("--verify")
  expect(code).toBe(0)
  expect(out).toContain("unchanged")
})

test("--verify says that it verified nothing where no month is sealed", async () => {
  is_sealed = false
  const { code, err } = await say("--verify")
  is_sealed = true
  expect(code).toBe(0)
  expect(err).toContain("Nothing was verified: no month is sealed yet.")
  expect((await say("--verify")).err).not.toContain("Nothing was verified")
})

test("D75 a dump is readable by its owner only, whatever the umask is, and is refused if it is not what was sealed", async () => {
  const file = join(folder, "2026-10.gz")
  const umask = process.umask(0)
  const { code, err } = await say("--dump", "2026-10", "--to", file)
  process.umask(umask)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect([code, err]).toEqual([1, expect.stringContaining("is not the month 2026-10 as it was sealed")])
})

import { expect, test } from "bun:test"
import { referenceApp } from "../docs/reference-app.ts"

const app = referenceApp("operator-token-of-the-tests")

const ask = (path: string, headers: Record<string, string> = {}) =>
  app.handle(new Request(`http://localhost${path}`, { headers }))

test.each([
  ["/console", "text/html; charset=utf-8"],
  ["/console/", "text/html; charset=utf-8"],
  ["/console/assets/page.js", "text/javascript; charset=utf-8"],
  ["/console/assets/page.css", "text/css; charset=utf-8"],
  ["/console/assets/plot.css", "text/css; charset=utf-8"],
  ["/console/assets/icon.svg", "image/svg+xml"],
  ["/account", "text/html; charset=utf-8"],
  ["/account/", "text/html; charset=utf-8"],
  ["/account/assets/page.js", "text/javascript; charset=utf-8"],
  ["/account/assets/icon.svg", "image/svg+xml"],
])(
  "D50, D104: %s is %s, asked again only whether it changed, and lets nothing else in",
  async (path, type) => {
    const first = await ask(path)
    expect([first.status, first.headers.get("content-type")]).toEqual([200, type])
    expect(first.headers.get("cache-control")).toBe("no-cache")
    expect(first.headers.get("x-content-type-options")).toBe("nosniff")
    expect(first.headers.get("referrer-policy")).toBe("no-referrer")
    const policy = first.headers.get("content-security-policy") ?? ""
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    for (const part of ["frame-ancestors", "base-uri", "form-action", "trusted-types"]) {
      expect(policy).toContain(`${part} 'none'`)
    }
    expect(policy).not.toMatch(/unsafe|http|\*|data:/)
    const again = await ask(path, { "if-none-match": first.headers.get("etag") ?? "none" })
    expect([again.status, await again.text()]).toEqual([304, ""])
    const packed = await ask(path, { "accept-encoding": "br, gzip" })
    expect([packed.headers.get("content-encoding"), packed.headers.get("vary")]).toEqual([
      "gzip",
      "accept-encoding",
    ])
    expect(new TextDecoder().decode(Bun.gunzipSync(await packed.arrayBuffer()))).toBe(await first.text())
  },
)

test("D50: neither script nor style stands in the page itself, and no text of the page's code becomes markup", async () => {
  expect(await (await ask("/console")).text()).not.toMatch(/<style|style=|<script>|\son\w+=/)
  const script = await (await ask("/console/assets/page.js")).text()
  const own = await (await ask("/account/assets/page.js")).text()
  expect(script + own).not.toMatch(/\binnerHTML\b|\binsertAdjacentHTML\b|\beval\(|document\.write/)
})

test("D50, D104: the pages are small", async () => {
  const bytes = async (file: string, page = "console") =>
    (await (await ask(`/${page}/assets/${file}`)).bytes()).length
  expect(await bytes("page.js", "account")).toBeLessThan(96 * 1024)
  expect(await bytes("page.js")).toBeLessThan(138 * 1024)
  expect((await bytes("page.css")) + (await bytes("plot.css"))).toBeLessThan(20 * 1024)
})

test.each([
  "/console/assets/",
  "/console/assets/page.html",
  "/console/assets/main.ts",
  "/console/assets/constructor",
])("%s is not served", async (path) => {
  expect((await ask(path)).status).toBe(404)
})

test("D50: the console stands nowhere without an admin token, and D104 the page of a key's holder also then", async () => {
  const closed = referenceApp(null)
  const statuses = ["/console", "/account"].map((path) =>
    closed.handle(new Request(`http://localhost${path}`)),
  )
  expect((await Promise.all(statuses)).map(({ status }) => status)).toEqual([404, 200])
})

import { describe, expect, test } from "bun:test"
import { type BannerFacts, banner } from "../../src/start/banner.ts"
import { painter } from "../../src/start/paint.ts"

const plain = painter(false, {})
const demo: BannerFacts = {
  host: "127.0.0.1",
  port: 8080,
  admin: null,
  admin_token: "tg_admin_secret",
  model: "demo-small",
  command: "bun run tollgate",
  demo: { key: "tg_live_abc", made_token: true, data_dir: ".tollgate" },
}
const configured: BannerFacts = { ...demo, admin_token: "operator-secret", model: "gpt-5-mini", demo: null }

describe("what a demo says when it listens", () => {
  test.each([
    "  address      http://127.0.0.1:8080\n",
    "  key          tg_live_abc\n",
    "  docs         http://127.0.0.1:8080/docs\n",
    "  console      http://127.0.0.1:8080/console\n",
    "  admin token  tg_admin_secret\n",
    "\n  bun run tollgate accounts create Acme ",
    "\n  bun run tollgate credit Acme 25 ",
    "\n  bun run tollgate keys create Acme ",
    "\n  bun run tollgate calls ",
  ])("has the line %j", (line) => {
    expect(banner(demo, plain)).toContain(line)
  })

  test.each([
    ["every address of IPv4", "0.0.0.0", "http://127.0.0.1:8080/docs"],
    ["every address", "::", "http://[::1]:8080/docs"],
    ["one address of IPv6", "::1", "http://[::1]:8080/docs"],
    ["a name", "localhost", "http://localhost:8080/docs"],
  ])("says how to reach a listener on %s", (_name, host, docs) => {
    expect(banner({ ...demo, host }, plain)).toContain(docs)
  })

  test("D52 says where the data directory is when the command line would not look there", () => {
    expect(banner(demo, plain)).not.toContain("export")
    const elsewhere = { ...demo, demo: { key: "k", made_token: true, data_dir: "/srv/my data" } }
    expect(banner(elsewhere, plain)).toContain("\n  export TOLLGATE_DATA_DIR='/srv/my data'\n")
  })

  test("D52 with a token of the operator's own, never shows it", () => {
    const own = { ...demo, port: 9000, demo: { key: "k", made_token: false, data_dir: ".tollgate" } }
    expect(banner(own, plain)).not.toContain("tg_admin_secret")
    expect(banner(own, plain)).toContain("\n  export TOLLGATE_URL=http://127.0.0.1:9000\n")
  })

  test.skipIf(Bun.which("curl") === null)(
    "its curl line, pasted into a shell, sends a streaming chat call with the key",
    async () => {
      const seen = Promise.withResolvers<{ path: string; authorization: string | null; body: unknown }>()
      const server = Bun.serve({
        hostname: "127.0.0.1",
        port: 0,
        async fetch(request) {
          const { pathname: path } = new URL(request.url)
          const authorization = request.headers.get("authorization")
          seen.resolve({ path, authorization, body: await request.json() })
          return new Response("data: [DONE]\n\n")
        },
      })
      const key = "tg_live_'quoted'"
      const made = { key, made_token: true, data_dir: ".tollgate" }
      const said = banner({ ...demo, port: server.port ?? 0, demo: made }, plain)
      const line = said.split("\n").find((text) => text.startsWith("curl "))
      const shell = Bun.spawn(["sh", "-c", line ?? "false"], { stdout: "pipe", stderr: "pipe" })
      expect(await new Response(shell.stdout).text()).toBe("data: [DONE]\n\n")
      expect(await shell.exited).toBe(0)
      expect(await seen.promise).toEqual({
        path: "/v1/chat/completions",
        authorization: `Bearer ${key}`,
        body: {
          model: "demo-small",
          stream: true,
          messages: [{ role: "user", content: expect.any(String) }],
        },
      })
      await server.stop(true)
    },
  )
})

describe("what a configured gateway says to a terminal", () => {
  test("a call to its first model with a key of the operator's, and no secret at all", () => {
    const said = banner(configured, plain)
    expect(said).toContain('-H "Authorization: Bearer $KEY"')
    expect(said).toContain('"model":"gpt-5-mini"')
    expect(said).not.toContain("operator-secret")
    expect(said).not.toContain("demo")
  })

  test("D39 where operators are served apart from clients", () => {
    const said = banner({ ...configured, admin: { host: "127.0.0.1", port: 9090 } }, plain)
    expect(said).toContain("  address      http://127.0.0.1:8080\n")
    expect(said).toContain("  console      http://127.0.0.1:9090/console\n")
    expect(said).toContain("  export TOLLGATE_URL=http://127.0.0.1:9090\n")
  })

  test("without an admin token that there is no /admin, and nothing that would need it", () => {
    const said = banner({ ...configured, admin_token: null }, plain)
    expect(said).toContain("admin token  none: set TOLLGATE_ADMIN_TOKEN")
    expect(said).not.toContain("http://127.0.0.1:8080/console")
    expect(said).not.toContain("tollgate accounts")
  })

  test("without a chat model no call", () => {
    expect(banner({ ...configured, model: null }, plain)).not.toContain("curl")
  })
})

describe("colours", () => {
  const rows: readonly [what: string, is_terminal: boolean, env: Record<string, string>, colours: boolean][] =
    [
      ["on a terminal", true, {}, true],
      ["not in a pipe", false, {}, false],
      ["not with NO_COLOR", true, { NO_COLOR: "1" }, false],
      ["with an empty NO_COLOR, as no-color.org says", true, { NO_COLOR: "" }, true],
      ["not on a dumb terminal", true, { TERM: "dumb" }, false],
    ]
  test.each(rows)("%s", (_what, is_terminal, env, colours) => {
    expect(banner(demo, painter(is_terminal, env)).includes("\u001b[")).toBe(colours)
  })
})

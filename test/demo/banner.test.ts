import { describe, expect, test } from "bun:test"
import { type DemoFacts, demoBanner } from "../../src/demo/banner.ts"

const facts: DemoFacts = { host: "127.0.0.1", port: 8080, key: "tg_live_abc", admin_token: "admin-secret" }

describe("what the demo prints", () => {
  test.each(["http://127.0.0.1:8080", "tg_live_abc", "http://127.0.0.1:8080/docs", "admin-secret"])(
    "names %s",
    (fact) => {
      expect(demoBanner(facts)).toContain(fact)
    },
  )

  test.each([
    ["every address of IPv4", "0.0.0.0", "http://127.0.0.1:8080/docs"],
    ["every address", "::", "http://[::1]:8080/docs"],
    ["one address of IPv6", "::1", "http://[::1]:8080/docs"],
    ["a name", "localhost", "http://localhost:8080/docs"],
  ])("says how to reach a listener on %s", (_name, host, docs) => {
    expect(demoBanner({ ...facts, host })).toContain(docs)
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
          seen.resolve({
            path,
            authorization: request.headers.get("authorization"),
            body: await request.json(),
          })
          return new Response("data: [DONE]\n\n")
        },
      })
      const banner = demoBanner({ ...facts, port: server.port ?? 0, key: "tg_live_'quoted'" })
      const line = banner.split("\n").find((text) => text.startsWith("curl "))
      const shell = Bun.spawn(["sh", "-c", line ?? "false"], { stdout: "pipe", stderr: "pipe" })
      expect(await new Response(shell.stdout).text()).toBe("data: [DONE]\n\n")
      expect(await shell.exited).toBe(0)
      expect(await seen.promise).toEqual({
        path: "/v1/chat/completions",
        authorization: "Bearer tg_live_'quoted'",
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

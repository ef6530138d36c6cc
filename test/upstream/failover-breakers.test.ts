import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { CircuitBreakers } from "../../src/upstream/circuit-breakers.ts"
import { json, type Script, silent, sse } from "../support/provider.ts"
import { thrown } from "../support/thrown.ts"
import {
  failure,
  first,
  hasty,
  newProviders,
  outgoing,
  resets,
  routes,
  send,
  textOf,
  upstream,
} from "./calling.ts"

newProviders()

describe("D33 the breakers", () => {
  const opens: [name: string, script: Script, opens: boolean][] = [
    ["500", json(500, {}), true],
    ["503", json(503, {}), true],
    ["529", json(529, {}), true],
    ["reset", resets, true],
    ["silence", silent(), true],
    ["400", json(400, {}), false],
    ["401", json(401, {}), false],
    ["408", json(408, {}), false],
    ["429", json(429, {}), false],
  ]
  test.each(opens)(
    "five times %s opens for the account whose calls they were: %p",
    async (name, script, opens) => {
      first.reply(script)
      const breakers = new CircuitBreakers()
      const call = () =>
        failure(
          send(routes(upstream(first.url, name === "silence" ? hasty : {})), { stream: true }, breakers),
        )
      await Promise.all(Array.from({ length: 5 }, call))
      expect(breakers.admits("first", outgoing().account_id)).toBe(!opens)
      expect(breakers.admits("first", "another")).toBe(true)
      const error = await call()
      expect(first.requests).toHaveLength(opens ? 5 : 6)
      if (opens) expect(error.code).toBe("upstream_unavailable")
    },
  )

  test("D33 the console, the reference and the documentation say that it takes two accounts", () => {
    const ROOT = join(import.meta.dir, "../..")
    for (const path of ["src/console/page/views/upstreams.ts", "docs/errors.md", "docs/operating.md"]) {
      const words = readFileSync(join(ROOT, path), "utf8")
      expect([path, /five [^|]*two accounts/.test(words)]).toEqual([path, true])
    }
  })

  test("a stream lost after its 2xx does not count", async () => {
    first.reply(sse(["data: {}\n\n"], { ending: "reset" }))
    const breakers = new CircuitBreakers()
    for (let n = 0; n < 6; n++) {
      const { body } = await send(routes(upstream(first.url)), { stream: true }, breakers)
      expect(await thrown(textOf(body))).toBeInstanceOf(Error)
    }
    expect(first.requests).toHaveLength(6)
  })

  test("an abandoned call does not count", async () => {
    first.reply(silent())
    const breakers = new CircuitBreakers()
    for (let n = 1; n <= 6; n++) {
      const leaving = new AbortController()
      const call = thrown(send(routes(upstream(first.url)), { signal: leaving.signal }, breakers))
      await first.exchange(n)
      leaving.abort()
      await call
    }
    expect(breakers.admits("first")).toBe(true)
  })
})

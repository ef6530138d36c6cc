import { describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { referenceApp } from "../docs/reference-app.ts"
import { ADMIN_TOKEN, chat } from "../support/gateway.ts"
import { HELLO, json } from "../support/provider.ts"
import { textOf } from "../support/repository.ts"
import { testGateway } from "../support/test-gateway.ts"

/** SECURITY.md, row by row: who may do what, and which tests are named there. */

const PAGE = "SECURITY.md"
const ROOT = join(import.meta.dir, "../..")
const ID = "01a1fdba-bbb4-7000-889f-26dc4478d767"
const PAGE_ORIGIN = "https://app.test"

/** The rows of the table below a heading, without its head. */
function rowsUnder(heading: string): string[][] {
  const [, section = ""] = textOf(PAGE).split(`\n## ${heading}\n`)
  const lines =
    section
      .split("\n## ")[0]
      ?.split("\n")
      .filter((line) => line.startsWith("| ")) ?? []
  return lines.slice(1).map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
}

const { provider, gateway } = await testGateway({ cors: { origins: [PAGE_ORIGIN] } }, HELLO)
const mine = await gateway.account()
const other = await gateway.account()

const bearer = (token: string) => ({ authorization: `Bearer ${token}`, "content-type": "application/json" })

/** Every route, as a request of its method would reach it. */
const routes = [
  ...new Map(
    referenceApp()
      .routes.filter(({ method }) => method !== "ALL" && method !== "OPTIONS")
      .map(({ method, path }) => [
        `${method} ${path}`,
        {
          method,
          path: path
            .replace(":vendor", "anthropic")
            .replace(":file", "page.css")
            .replace("*", "x")
            .replace(/:\w+/g, ID),
        },
      ]),
  ).values(),
]

/** The statuses that routes answer to a credential, by path. */
async function answers(headers: Record<string, string>): Promise<Map<string, number>> {
  const seen = new Map<string, number>()
  for (const { method, path } of routes) {
    const body = method === "GET" || method === "DELETE" ? {} : { body: "{}" }
    const { status } = await fetch(`${gateway.url}${path}`, { method, headers, redirect: "manual", ...body })
    seen.set(`${method} ${path}`, status)
  }
  return seen
}

/** What the row of each one says, by the first words of the row. */
const proofs: Readonly<Record<string, (may: string) => Promise<void>>> = {
  async "anybody who reaches"(may) {
    const named = [...may.matchAll(/`(\/[a-z/]*)`/g)].map(([, path = ""]) => path)
    const open = [...(await answers({}))].filter(([, status]) => status !== 401).map(([route]) => route)
    const isNamed = (route: string) =>
      named.some((path) => new RegExp(`^GET ${path}(/|/(assets|json).*)?$`).test(route))
    expect(open.filter((route) => !isNamed(route))).toEqual([])
    expect(named.filter((path) => !open.includes(`GET ${path}`))).toEqual([])
  },
  async "a client"() {
    const statuses = await answers(bearer(mine.key))
    const entered = [...statuses].filter(([, status]) => status !== 401).map(([route]) => route)
    expect(entered.filter((route) => / \/(admin(?!\/oidc)|metrics)/.test(route))).toEqual([])
    expect([...statuses.keys()].filter((route) => / \/v1/.test(route) && !entered.includes(route))).toEqual(
      [],
    )
    const theirs = (await chat(gateway, other.key)).headers.get("x-request-id")
    const read = (key: string) => fetch(`${gateway.url}/v1/calls/${theirs}`, { headers: bearer(key) })
    expect([(await read(mine.key)).status, (await read(other.key)).status]).toEqual([404, 200])
  },
  async "an operator"() {
    const statuses = await answers(bearer(ADMIN_TOKEN))
    const refused = [...statuses].filter(([, status]) => status === 401).map(([route]) => route)
    expect(refused.filter((route) => / \/(admin|metrics|console)/.test(route))).toEqual([])
    const keys = await gateway.admin("GET", `/accounts/${mine.id}/keys`)
    expect(JSON.stringify(keys)).not.toContain(mine.key)
  },
  async "the operator who writes the configuration"() {
    // They have the secrets already: nothing is kept from them.
  },
  async "a provider"() {
    const asked = provider.requests.length
    provider.replyOnce(json(302, {}, { location: `${provider.url}/elsewhere` }))
    expect((await chat(gateway, mine.key)).status).toBe(502)
    expect(provider.requests.length).toBe(asked + 1)
  },
  async "a page in a browser"() {
    const shown = async (path: string, origin: string) =>
      (await fetch(`${gateway.url}${path}`, { headers: { ...bearer(mine.key), origin } })).headers.get(
        "access-control-allow-origin",
      )
    expect(await shown("/v1/models", PAGE_ORIGIN)).toBe(PAGE_ORIGIN)
    expect(await shown("/v1/models", "https://other.test")).toBeNull()
    expect([await shown("/admin/accounts", PAGE_ORIGIN), await shown("/metrics", PAGE_ORIGIN)]).toEqual([
      null,
      null,
    ])
  },
}

describe("D39 SECURITY.md: who may do what", () => {
  const rows = rowsUnder("Who may do what")

  test("every row has a proof, and every proof a row", () => {
    const words = Object.keys(proofs)
    expect(rows.map(([who = ""]) => words.find((word) => who.startsWith(word)))).toEqual(words)
  })

  test.each(rows)("%s, with %s", async (who, _credential, may = "") => {
    const [, proof] = Object.entries(proofs).find(([word]) => who?.startsWith(word)) ?? []
    await proof?.(may)
  })
})

test("every test that SECURITY.md names is there", () => {
  const named = rowsUnder("What was tested").map(([attack, , tests = ""]) => {
    return { attack, files: [...tests.matchAll(/`(test\/[^`]+)`/g)].map(([, file = ""]) => file) }
  })
  const empty = named.filter(
    ({ files }) => files.length === 0 || !files.every((file) => existsSync(join(ROOT, file))),
  )
  expect(empty).toEqual([])
})

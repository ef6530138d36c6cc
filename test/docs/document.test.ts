import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { Validator } from "@seriousme/openapi-schema-validator"
import { catalogue, errorTypes } from "../../src/errors.ts"
import { isObject } from "../../src/wire/usage.ts"
import { ERRORS_PAGE, errorsPage } from "./errors-page.ts"
import { misfit } from "./json-schema.ts"
import { type Document, entriesOf } from "./reference.ts"
import { referenceApp } from "./reference-app.ts"
import { STATUSES, statusesOf } from "./statuses.ts"

const app = referenceApp()
const document: Document = JSON.parse(await text("/docs/json"))
const operations = entriesOf(document)

async function text(path: string): Promise<string> {
  return await (await app.handle(new Request(`http://localhost${path}`))).text()
}

describe("the OpenAPI document", () => {
  test("is valid OpenAPI 3.0.3", async () => {
    expect(document.openapi).toBe("3.0.3")
    expect(await new Validator().validate(structuredClone({ ...document }))).toEqual({ valid: true })
  })

  test("describes every route, and nothing that is not routed", () => {
    const routed = app.routes
      // OPTIONS is for the probes of load balancers (D33), the wildcard for names with slashes (D23), `/console/` is `/console`, and so on.
      .filter(({ method, path }) => method !== "ALL" && method !== "OPTIONS" && !path.includes("*"))
      .filter(({ path }) => !["/console/", "/account/"].includes(path))
      .map(({ method, path }) => `${method} ${path.replace(/:(\w+)/g, "{$1}")}`)
    expect(operations.map(({ name }) => name).sort()).toEqual(routed.sort())
  })

  test("has neither /admin nor /console where there is no token (D50)", async () => {
    const closed: Document = JSON.parse(
      await (await referenceApp(null).handle(new Request("http://localhost/docs/json"))).text(),
    )
    expect(Object.keys(closed.paths).filter((path) => /^\/(?:admin|console)\b/.test(path))).toEqual([])
    expect(Object.keys(closed.paths)).toContain("/v1/chat/completions")
  })

  test("says where it is and which version it describes", () => {
    expect(document.info.title).toBe("Tollgate")
    expect(document.info.version).toMatch(/^\d+\.\d+\.\d+$/)
    expect(document.servers.map(({ url }) => url)).toEqual(["/"])
  })

  test("gives every operation a name of its own", () => {
    const names = operations.map(({ operation }) => operation.operationId)
    expect(new Set(names).size).toBe(names.length)
  })

  test("names every path parameter of a path", () => {
    for (const { name, path, operation } of operations) {
      const named = (operation.parameters ?? []).filter((parameter) => parameter.in === "path")
      const wanted = [...path.matchAll(/\{(\w+)\}/g)].map(([, parameter = ""]) => parameter)
      expect({ name, parameters: named.map((parameter) => parameter.name) }).toEqual({
        name,
        parameters: wanted,
      })
    }
  })

  test("D20: has the credentials of both families and the operator's, and says which opens what", () => {
    expect(Object.keys(document.components.securitySchemes)).toEqual([
      "apiKey",
      "xApiKey",
      "adminToken",
      "adminSession",
    ])
    const opens = (name: string) =>
      operations.find((operation) => operation.name === name)?.operation.security?.flatMap(Object.keys)
    expect(opens("POST /v1/chat/completions")).toEqual(["apiKey"])
    expect(opens("POST /v1/messages/count_tokens")).toEqual(["xApiKey", "apiKey"])
    expect(opens("GET /admin/audit")).toEqual(["adminToken"])
    expect(opens("GET /livez")).toEqual([])
  })
})

describe("the errors of the document", () => {
  const exampleCodes = operations.flatMap(({ operation }) =>
    Object.values(operation.responses).flatMap(({ content }) =>
      Object.keys(content?.["application/json"]?.examples ?? {}),
    ),
  )

  test("D15: the table has every code with its cause and its cure, each of its own", () => {
    const rows = document.info.description.split("\n").filter((line) => /^\| \d{3} /.test(line))
    const cells = rows.map((row) => row.split("|").map((cell) => cell.trim()))
    expect(cells.map(([, status, code]) => [Number(status), code])).toEqual(
      Object.entries(catalogue).map(([code, { status }]) => [status, `\`${code}\``]),
    )
    for (const column of [3, 4]) {
      const texts = cells.map((row) => row[column] ?? "")
      expect(texts.filter((text) => text.length < 20)).toEqual([])
      expect(new Set(texts).size).toBe(texts.length)
    }
  })

  test("the same table is docs/errors.md, which `bun test/docs/write.ts` writes", () => {
    expect(readFileSync(ERRORS_PAGE, "utf8")).toBe(errorsPage())
  })

  test("the answers of all tests are compared with its statuses, which `bun test/docs/write.ts` writes", () => {
    expect(readFileSync(STATUSES, "utf8")).toBe(statusesOf(document))
  })

  test.each(Object.keys(catalogue).filter((code) => code !== "method_not_allowed"))(
    "D15: %s is an example of an operation that can give it",
    (code) => {
      expect(exampleCodes).toContain(code)
    },
  )

  test("D15, D16: every error's example stands under its own status, in the one shape", () => {
    const entries: Readonly<Record<string, { readonly status: keyof typeof errorTypes }>> = catalogue
    for (const { name, operation } of operations) {
      for (const [status, { content }] of Object.entries(operation.responses)) {
        if (Number(status) < 400 || name === "GET /readyz") continue
        for (const [code, { value }] of Object.entries(content?.["application/json"]?.examples ?? {})) {
          const own = entries[code]?.status
          expect({ name, status: own }).toMatchObject({ name, status: Number(status) })
          expect(value).toMatchObject({ type: "error", error: { code, type: own && errorTypes[own] } })
        }
      }
    }
  })

  test("every call lists what a call can fail with (D15, D17, D27, D33)", () => {
    const listed = Object.values(document.paths["/v1/chat/completions"]?.post?.responses ?? {}).flatMap(
      ({ content }) => Object.keys(content?.["application/json"]?.examples ?? {}),
    )
    const impossible = ["key_change_not_allowed", "role_required", "method_not_allowed", "archived"]
    expect(Object.keys(catalogue).filter((code) => !listed.includes(code))).toEqual(impossible)
  })
})

describe("the examples of the document", () => {
  test("name the first configured model of the family, and no other, so that they can be tried out", () => {
    const asked = operations.flatMap(({ path, operation: { requestBody } }) =>
      Object.values(requestBody?.content["application/json"]?.examples ?? {}).flatMap(({ value }) =>
        isObject(value) && "messages" in value ? [{ path, model: value.model }] : [],
      ),
    )
    expect(asked.length).toBeGreaterThan(8)
    for (const { path, model } of asked) {
      expect({ path, model }).toEqual({
        path,
        model: path.includes("/v1/messages") ? "demo-messages" : "demo-small",
      })
    }
    expect(JSON.stringify(document)).not.toMatch(/"(gpt-5-mini|claude-sonnet)"/)
  })

  const media = operations.flatMap(({ name, operation }) => [
    ...Object.entries(operation.requestBody?.content ?? {}).map(([type, of]) => ({
      name: `${name} body`,
      type,
      of,
    })),
    ...Object.entries(operation.responses).flatMap(([status, { content }]) =>
      Object.entries(content ?? {}).map(([type, of]) => ({ name: `${name} ${status}`, type, of })),
    ),
  ])
  const rows = media
    .filter(({ type }) => type === "application/json")
    .flatMap(({ name, of }) =>
      Object.entries(of.examples ?? {}).map(([title, { value }]) => ({
        title: `${name}: ${title}`,
        schema: of.schema ?? {},
        value,
      })),
    )

  test.each(rows)("$title fits its schema", ({ schema, value }) => {
    expect(misfit(document, schema, value)).toBeNull()
  })

  test("the example streams: every event fits its schema, and the last one is the last (D24, D66)", () => {
    const streams = media.filter(({ type }) => type === "text/event-stream")
    expect(streams).toHaveLength(6)
    for (const { of } of streams) {
      const lines = String(of.example).split("\n")
      const events = lines.flatMap((line) => (line.startsWith("data: ") ? [line.slice("data: ".length)] : []))
      expect(events.length).toBeGreaterThan(4)
      expect(events.pop()).toMatch(/^(?:\[DONE\]|\{"type":"(?:response\.completed|message_stop)".*\})$/)
      for (const event of events) expect(misfit(document, of.schema ?? {}, JSON.parse(event))).toBeNull()
    }
  })
})

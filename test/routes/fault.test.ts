import { expect, test } from "bun:test"
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { type ErrorCode, errorResponse, GatewayError } from "../../src/errors.ts"
import { faultOf, ROUTING, readQuery } from "../../src/routes/routing.ts"
import { moment, query, wholeNumber, word } from "../../src/wire/parameter.ts"

const faults: GatewayError[] = []
const seen: unknown[] = []

const app = new Elysia(ROUTING)
  .onError(({ error }) => {
    const fault = faultOf(error)
    faults.push(fault)
    return errorResponse(fault, "id")
  })
  .derive(readQuery)
  .get(
    "/parameters",
    ({ query }) => {
      seen.push(query)
      return "read"
    },
    {
      query: query({
        at: Type.Optional(moment("A moment.")),
        by: Type.Optional(word(["day", "hour"], "A word.", { default: "day" })),
        limit: Type.Optional(wholeNumber(10, 5, "A number.")),
      }),
    },
  )
  .post("/parse", ({ body }) => body, {
    parse: () => {
      throw new GatewayError("request_too_large")
    },
  })
  .get("/answer", () => JSON.parse('{"canary":"secret"}'), { response: Type.Object({ name: Type.String() }) })

async function refused(path: string, method = "GET"): Promise<[ErrorCode, string | undefined]> {
  const before = faults.length
  const response = await app.handle(new Request(`http://localhost${path}`, { method }))
  expect(await response.text()).not.toContain("canary")
  const fault = faults[before]
  expect(response.status).toBe(fault?.status ?? 0)
  return [fault?.code ?? "internal_error", fault?.detail.param]
}

test("D30 the parser of a body says itself what is wrong with it", async () => {
  expect(await refused("/parse", "POST")).toEqual(["request_too_large", undefined])
})

test("D16 an answer that its schema refuses is a 500, and neither the client nor the log sees it", async () => {
  expect(await refused("/answer")).toEqual(["internal_error", undefined])
  expect(Bun.inspect(faults.at(-1)?.detail.cause)).toContain("does not fit its schema")
  expect(Bun.inspect(faults.at(-1)?.detail.cause)).not.toContain("secret")
})

test.each([
  ["limit=11", "limit"],
  ["limit=0", "limit"],
  ["limit=05", "limit"],
  ["limit=1e0", "limit"],
  ["limit=%205", "limit"],
  ["limit=5&limit=5", "limit"],
  ["by=week", "by"],
  ["by=", "by"],
  ["at=2026-02-30", "at"],
  ["at=2026-11-21&at=2026-11-21", "at"],
  ["limit=x&canary=1", undefined],
  ["__proto__=canary", undefined],
])("D15 ?%s is a 400", async (text, param) => {
  expect(await refused(`/parameters?${text}`)).toEqual(["invalid_request", param])
})

test("many parameters do not block the event loop", () => {
  const names = Array.from({ length: 30_000 }, (_, at) => `n${at}`)
  const request = new Request(`http://localhost/?${names.join("&")}`)
  const began_ms = performance.now()
  expect(Object.keys(Object(readQuery({ request }).query))).toHaveLength(names.length)
  expect(performance.now() - began_ms).toBeLessThan(5_000)
})

test("parameters are decoded, and have their defaults", async () => {
  const read = async (text: string) => {
    await app.handle(new Request(`http://localhost/parameters${text}`))
    return { ...Object(seen.at(-1)) }
  }
  expect(await read("")).toEqual({ by: "day", limit: 5 })
  expect(await read("?limit=10&by=hour&at=2026-11-21")).toEqual({
    at: new Date("2026-11-21T00:00:00Z"),
    by: "hour",
    limit: 10,
  })
})

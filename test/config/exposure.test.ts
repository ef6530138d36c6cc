import { describe, expect, test } from "bun:test"
import { checkExposure, type Exposure } from "../../src/config/environment.ts"

const TOKEN = "0123456789abcdef"
const SAFE: Exposure = { host: "127.0.0.1", port: 8080, admin: null, admin_token: null }

function refusal(changes: Partial<Exposure>): string | null {
  try {
    checkExposure({ ...SAFE, ...changes })
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

const LOOPBACK = ["127.0.0.1", "127.8.9.10", "localhost", "::1"]
const OPEN = [
  ..."0.0.0.0 :: 10.0.0.5 192.168.1.1 gateway.internal ::ffff:127.0.0.1 fe80::1".split(" "),
  ..."127.0.0.1.example.com 127.0.0 1127.0.0.1 localhost.example.com LOCALHOST".split(" "),
]

describe("D39 a gateway that others can reach has an admin token", () => {
  test.each(LOOPBACK)("%s is this machine alone", (host) => {
    expect(refusal({ host })).toBeNull()
    expect(refusal({ admin: { host, port: 9090 } })).toBeNull()
  })

  test.each(OPEN)("%s is refused without one, in one sentence", (host) => {
    const expected =
      "expected a loopback address such as 127.0.0.1, or a TOLLGATE_ADMIN_TOKEN of at least 16 characters"
    expect(refusal({ host })).toBe(`HOST: ${expected}`)
    expect(refusal({ admin: { host, port: 9090 } })).toBe(`admin.host: ${expected}`)
    expect(refusal({ host, admin: { host, port: 9090 }, admin_token: TOKEN })).toBeNull()
  })

  test("operators and clients do not share a port that is to part them", () => {
    const expected = "admin.port: expected a port other than PORT"
    expect(refusal({ admin: { host: "127.0.0.1", port: 8080 } })).toBe(expected)
    expect(refusal({ admin: { host: "::1", port: 8080 } })).toBe(expected)
    expect(refusal({ port: 0, admin: { host: "127.0.0.1", port: 0 } })).toBeNull()
  })
})

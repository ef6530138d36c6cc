import { describe, expect, test } from "bun:test"
import {
  hasVersionHeader,
  passedHeaders,
  passedQuery,
  vendorVersion,
} from "../../src/operations/request-headers.ts"
import { refusalOf } from "../support/refusal.ts"

const vendors = ["anthropic", "acme"]

const refusal = (headers: Record<string, string>, pathVendor: string | null, known = vendors) =>
  refusalOf(() => vendorVersion(new Headers(headers), known, pathVendor))

const ours = { "anthropic-version": "2023-06-01" }
const acmes = { "acme-version": "2026-10-21" }

const accepted: [string, Record<string, string>, path: string | null, vendor: string, version: string][] = [
  ["the plain path: the one vendor's", ours, null, "anthropic", "2023-06-01"],
  ["the plain path: another configured vendor's", acmes, null, "acme", "2026-10-21"],
  ["a vendor's path: that vendor's", acmes, "acme", "acme", "2026-10-21"],
  ["a vendor's path: that vendor's of two", { ...acmes, ...ours }, "anthropic", "anthropic", "2023-06-01"],
  ["an unknown vendor's is none", { ...ours, "evil-version": "x" }, null, "anthropic", "2023-06-01"],
  ["a leap day", { "anthropic-version": "2024-02-29" }, null, "anthropic", "2024-02-29"],
  ["a day long ago", { "anthropic-version": "0001-01-01" }, null, "anthropic", "0001-01-01"],
  ["a day far ahead", { "anthropic-version": "9999-12-31" }, null, "anthropic", "9999-12-31"],
]
test.each(accepted)("D21 %s", (_, headers, path, vendor, version) => {
  expect(vendorVersion(new Headers(headers), vendors, path)).toEqual({ vendor, version })
})

describe("D21 a version header that is missing, or one too many, is a 400", () => {
  const refused: [string, Record<string, string>, string | null, string][] = [
    ["none on the plain path", {}, null, "anthropic-version"],
    ["none on a vendor's path", {}, "acme", "acme-version"],
    ["another vendor's on a vendor's path", ours, "acme", "acme-version"],
    ["an unknown vendor's", { "evil-version": "2023-06-01" }, null, "anthropic-version"],
    ["the right name without its vendor", { version: "2023-06-01" }, null, "anthropic-version"],
    ["two on the plain path", { ...ours, ...acmes }, null, "acme-version"],
    ["the same header twice", { "anthropic-version": "2023-06-01, 2023-06-01" }, null, "anthropic-version"],
  ]
  test.each(refused)("%s", (_, headers, pathVendor, param) => {
    expect(refusal(headers, pathVendor)).toMatchObject({
      code: "invalid_request",
      status: 400,
      detail: { param },
    })
  })

  test("no vendor is configured at all", () => {
    expect(refusal(ours, null, [])).toMatchObject({ code: "invalid_request" })
  })
})

describe("D21 what is no calendar date is a 400", () => {
  test.each([
    "",
    ..."2023 2023-06 2023-6-1 23-06-01 12023-06-01 +02023-06-01 2023/06/01 20230601".split(" "),
    ..."2023-06-01T00:00:00Z 2023-06-01Z 2023-00-01 2023-13-01 2023-06-00 2023-06-31 2023-02-29".split(" "),
    ..."1900-02-29 2100-02-29 2023-99-99 latest v2023-06-01".split(" "),
    "2023-06-01 beta",
    "2023-06-01,",
    "2023-06-0a",
    "-023-06-01",
    "2023-06--1",
    "1e10-01-01",
    "202\xb3-06-01",
    "9".repeat(64),
  ])("%p", (version) => {
    const error = refusal({ "anthropic-version": version }, null)
    expect(error).toMatchObject({
      code: "invalid_request",
      status: 400,
      detail: { param: "anthropic-version" },
    })
    if (version.length > 8) expect(error.message).not.toContain(version)
  })

  test("every day of 400 years is one, and no other day is", () => {
    const inMonth = (year: number, month: number) => new Date(Date.UTC(year, month, 0)).getUTCDate()
    const pad = (number: number) => String(number).padStart(2, "0")
    for (let year = 1800; year < 2200; year += 1) {
      for (let month = 1; month <= 12; month++) {
        for (const day of [1, 28, 29, 30, 31]) {
          const headers = { "anthropic-version": `${year}-${pad(month)}-${pad(day)}` }
          const read = () => vendorVersion(new Headers(headers), vendors, null)
          if (day <= inMonth(year, month)) expect(read).not.toThrow()
          else expect(read).toThrow()
        }
      }
    }
  })
})

test.each([
  ["beyond ASCII", "caf\xe9"],
  ["a tab", "tab\there"],
  ["a control character", "\x7f"],
  ["2,049 characters", "x".repeat(2049)],
])("D65 a beta that is no plain header is a 400: %s", (_, beta) => {
  const headers = { ...ours, "anthropic-beta": beta }
  const read = () => passedHeaders(new Headers(headers), { vendor: "anthropic", version: "2023-06-01" })
  expect(read).toThrow("The anthropic-beta header must be at most 2048 printable ASCII characters.")
})

describe("D65 what is forwarded: the version, and every other header of the vendor", () => {
  const passed = (headers: Record<string, string>) =>
    passedHeaders(new Headers(headers), { vendor: "acme", version: "2023-06-01" })
  const version = { "acme-version": "2023-06-01" }

  test("by their names, in any case, and nothing else", () => {
    const headers = {
      ...version,
      "acme-beta": "a-2024-11-01,b",
      "Acme-Dangerous-Direct-Browser-Access": "true",
      "anthropic-beta": "x",
      acme: "x",
      authorization: "Bearer x",
      "x-acme-beta": "x",
    }
    expect(passed(headers)).toEqual({
      ...version,
      "acme-beta": "a-2024-11-01,b",
      "acme-dangerous-direct-browser-access": "true",
    })
  })

  test("an empty one is none", () => expect(passed({ ...version, "acme-beta": "" })).toEqual(version))

  test("at most 32 of them", () => {
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`acme-${at}`, "x"]))
    expect(Object.keys(passed({ ...version, ...many(32) }))).toHaveLength(33)
    expect(() => passed({ ...version, ...many(33) })).toThrow("At most 32 acme-* headers")
  })

  test.each([
    ["a query", "http://x/v1/messages?beta=true&x=%20", "?beta=true&x=%20"],
    ["none", "http://x/v1/messages", ""],
  ])("%s", (_, url, query) => expect(passedQuery(url)).toBe(query))

  test.each([
    ["a query that is too long", () => passedQuery(`http://x/?${"x".repeat(2048)}`), "query"],
    ["a query with a key of ours", () => passedQuery("http://x/?key=tg_live_x"), "query"],
    ["a header with a key of ours", () => passed({ "acme-auth": "Bearer tg_live_x" }), "acme-auth"],
  ])("refused: %s", (_, read, param) => {
    expect(refusalOf(read)).toMatchObject({ code: "invalid_request", detail: { param } })
  })
})

test("D23 whether there is a version header of a configured vendor", () => {
  expect(hasVersionHeader(new Headers({ "acme-version": "" }), vendors)).toBe(true)
  expect(hasVersionHeader(new Headers({ "evil-version": "2023-06-01" }), vendors)).toBe(false)
  expect(hasVersionHeader(new Headers(), vendors)).toBe(false)
})

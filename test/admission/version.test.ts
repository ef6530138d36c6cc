import { describe, expect, test } from "bun:test"
import {
  hasVersionHeader,
  type VendorVersion,
  vendorVersion,
  versionHeaders,
} from "../../src/admission/version.ts"
import { GatewayError } from "../../src/errors.ts"

const vendors = ["anthropic", "acme"]

function refusal(headers: Record<string, string>, pathVendor: string | null, known = vendors): GatewayError {
  try {
    vendorVersion(new Headers(headers), known, pathVendor)
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error("a version was found")
}

const accepted: [string, Record<string, string>, string | null, VendorVersion][] = [
  [
    "D21 the plain path: the one vendor's",
    { "anthropic-version": "2023-06-01" },
    null,
    { vendor: "anthropic", version: "2023-06-01", beta: null },
  ],
  [
    "D21 the plain path: another configured vendor's",
    { "acme-version": "2026-10-21" },
    null,
    { vendor: "acme", version: "2026-10-21", beta: null },
  ],
  [
    "D21 a vendor's path: that vendor's",
    { "acme-version": "2026-10-21" },
    "acme",
    { vendor: "acme", version: "2026-10-21", beta: null },
  ],
  [
    "D21 a vendor's path: that vendor's among several",
    { "acme-version": "2026-10-21", "anthropic-version": "2023-06-01" },
    "anthropic",
    { vendor: "anthropic", version: "2023-06-01", beta: null },
  ],
  [
    "D21 a vendor nobody configured counts for nothing",
    { "anthropic-version": "2023-06-01", "evil-version": "x" },
    null,
    { vendor: "anthropic", version: "2023-06-01", beta: null },
  ],
  [
    "D21 a leap day",
    { "anthropic-version": "2024-02-29" },
    null,
    { vendor: "anthropic", version: "2024-02-29", beta: null },
  ],
  [
    "D21 a day long ago",
    { "anthropic-version": "0001-01-01" },
    null,
    { vendor: "anthropic", version: "0001-01-01", beta: null },
  ],
  [
    "D21 a day far ahead",
    { "anthropic-version": "9999-12-31" },
    null,
    { vendor: "anthropic", version: "9999-12-31", beta: null },
  ],
  [
    "D22 betas",
    { "anthropic-version": "2023-06-01", "anthropic-beta": "a-2024-11-01,b" },
    null,
    { vendor: "anthropic", version: "2023-06-01", beta: "a-2024-11-01,b" },
  ],
  [
    "D22 an empty beta is none",
    { "anthropic-version": "2023-06-01", "anthropic-beta": "" },
    null,
    { vendor: "anthropic", version: "2023-06-01", beta: null },
  ],
  [
    "D22 another vendor's beta is not taken",
    { "anthropic-version": "2023-06-01", "acme-beta": "x" },
    null,
    { vendor: "anthropic", version: "2023-06-01", beta: null },
  ],
]
test.each(accepted)("%s", (_, headers, pathVendor, expected) => {
  expect(vendorVersion(new Headers(headers), vendors, pathVendor)).toEqual(expected)
})

describe("D21 a version header that is missing, or one too many, is a 400", () => {
  const refused: [string, Record<string, string>, string | null, string][] = [
    ["none on the plain path", {}, null, "anthropic-version"],
    ["none on a vendor's path", {}, "acme", "acme-version"],
    ["another vendor's on a vendor's path", { "anthropic-version": "2023-06-01" }, "acme", "acme-version"],
    ["an unknown vendor's", { "evil-version": "2023-06-01" }, null, "anthropic-version"],
    ["the right name without its vendor", { version: "2023-06-01" }, null, "anthropic-version"],
    [
      "two on the plain path",
      { "anthropic-version": "2023-06-01", "acme-version": "2023-06-01" },
      null,
      "acme-version",
    ],
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
    expect(refusal({ "anthropic-version": "2023-06-01" }, null, [])).toMatchObject({
      code: "invalid_request",
    })
  })
})

describe("D21 what is no calendar date is a 400", () => {
  test.each([
    "",
    "2023",
    "2023-06",
    "2023-6-1",
    "23-06-01",
    "12023-06-01",
    "+02023-06-01",
    "2023/06/01",
    "20230601",
    "2023-06-01T00:00:00Z",
    "2023-06-01Z",
    "2023-00-01",
    "2023-13-01",
    "2023-06-00",
    "2023-06-31",
    "2023-02-29",
    "1900-02-29",
    "2100-02-29",
    "2023-99-99",
    "latest",
    "v2023-06-01",
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

describe("D22 a beta that is no plain header is a 400", () => {
  test.each([
    ["beyond ASCII", "caf\xe9"],
    ["a tab", "tab\there"],
    ["a control character", "\x7f"],
    ["2,049 characters", "x".repeat(2049)],
  ])("%s", (_, beta) => {
    const headers = { "anthropic-version": "2023-06-01", "anthropic-beta": beta }
    expect(refusal(headers, null)).toMatchObject({
      code: "invalid_request",
      detail: { param: "anthropic-beta" },
    })
  })
})

test("D22 what is forwarded: the version, and the betas if any", () => {
  expect(versionHeaders({ vendor: "acme", version: "2023-06-01", beta: null })).toEqual({
    "acme-version": "2023-06-01",
  })
  expect(versionHeaders({ vendor: "acme", version: "2023-06-01", beta: "x,y" })).toEqual({
    "acme-version": "2023-06-01",
    "acme-beta": "x,y",
  })
})

test("D23 whether there is a version header of a configured vendor", () => {
  expect(hasVersionHeader(new Headers({ "acme-version": "" }), vendors)).toBe(true)
  expect(hasVersionHeader(new Headers({ "evil-version": "2023-06-01" }), vendors)).toBe(false)
  expect(hasVersionHeader(new Headers(), vendors)).toBe(false)
})

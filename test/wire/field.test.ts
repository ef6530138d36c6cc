import { describe, expect, test } from "bun:test"
import { Type } from "@sinclair/typebox"
import { columnsOf, linesOf } from "../../src/cli/screen.ts"
import { Count, Milliseconds, Money, Time } from "../../src/wire/admin.ts"
import { fieldAt, nullable, titled, UNIT, valueAt } from "../../src/wire/field.ts"

const Parcel = Type.Object({
  name: titled("Name", Type.String()),
  price: titled("Price", nullable(Money)),
  sent_at: titled("Sent", Time, "When it was sent."),
  took_ms: titled("Took", nullable(Milliseconds)),
  size: nullable(Type.Object({ kilos: titled("Kilos", Count) })),
  lost: titled("Lost", Type.Number({ [UNIT]: "percent" })),
})

const parcel = {
  name: "Crate",
  price: "2.5",
  sent_at: "2026-11-26T10:00:00.000Z",
  took_ms: null,
  size: { kilos: 3 },
  lost: 4,
}

describe("the schema says of a field", () => {
  test.each([
    ["name", "Name", "text"],
    ["price", "Price", "usd"],
    ["sent_at", "Sent", "time"],
    ["took_ms", "Took", "ms"],
    ["size.kilos", "Kilos", "count"],
    ["lost", "Lost", "percent"],
  ] as const)("%s: its title %s and its unit %s", (path, title, unit) => {
    expect(fieldAt(Parcel, path)).toEqual({ title, unit })
  })

  test("and tables and cards of the command line show it so", () => {
    const column = columnsOf(Parcel)
    expect(column("size.kilos")).toMatchObject({ title: "KILOS", as: "count" })
    expect(column("price").of(parcel)).toBe("2.5")
    expect(column("price", { of: () => "free" })).not.toHaveProperty("as")
    const line = linesOf(Parcel, parcel)
    expect([line("price"), line("took_ms"), line("name", "A crate"), line("name", undefined)]).toEqual([
      ["price", "2.5", "usd"],
      ["took", null, "ms"],
      ["name", "A crate"],
      ["name", undefined],
    ])
  })
})

test("a value in an object that is null is null", () => {
  expect([valueAt(parcel, "size.kilos"), valueAt({ size: null }, "size.kilos")]).toEqual([3, null])
})

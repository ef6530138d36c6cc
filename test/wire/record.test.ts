import { expect, test } from "bun:test"
import { Type } from "@sinclair/typebox"
import { Count, Money, Time } from "../../src/wire/admin.ts"
import { nullable } from "../../src/wire/field.ts"
import { bodyOf } from "../../src/wire/record.ts"

const Body = Type.Object({
  id: Type.String(),
  charge: Money,
  limit: nullable(Money),
  at: Time,
  lines: Type.Array(Type.Object({ count: Count, at: Time })),
  shard: Type.Optional(Type.String()),
})

test("a body has the fields of its schema in its order, with amounts and times printed", () => {
  const at = new Date("2026-11-21T09:30:00Z")
  const record = {
    at,
    id: "a",
    lines: [{ count: 1, at }],
    secret: "s",
    charge_nano: 1_500_000_000n,
    limit_nano: null,
  }
  expect(Object.entries(bodyOf(Body, record))).toEqual([
    ["id", "a"],
    ["charge", "1.5"],
    ["limit", null],
    ["at", "2026-11-21T09:30:00.000Z"],
    ["lines", [{ count: 1, at: "2026-11-21T09:30:00.000Z" }]],
  ])
})

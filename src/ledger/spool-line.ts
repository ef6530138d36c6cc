import { type Static, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { isId } from "../id.ts"
import { bases, endings, failures, notes } from "../wire/call.ts"
import type { Closing } from "./reservation.ts"
import { batchOf } from "./statement.ts"

/** A closing and the account it belongs to; the account tells its lane. */
export interface SpooledClosing {
  readonly account_id: string
  readonly closing: Closing
}

const Nullable = <Schema extends Parameters<typeof Type.Union>[0][number]>(schema: Schema) =>
  Type.Union([schema, Type.Null()])
const Count = Type.Integer({ minimum: 0 })

const Line = Type.Object({
  account_id: Type.String(),
  closing: Type.Object({
    id: Type.String(),
    outcome: Type.Union([Type.Literal("settled"), Type.Literal("released")]),
    charge_nano: Type.String({ pattern: "^\\d{1,19}$" }),
    basis: Type.Union(bases.map((word) => Type.Literal(word))),
    ending: Type.Union([...endings.map((word) => Type.Literal(word)), Type.Null()]),
    failure: Type.Union([...failures.map((word) => Type.Literal(word)), Type.Null()]),
    notes: Type.Array(Type.Union(notes.map((word) => Type.Literal(word)))),
    usage: Nullable(Type.Object({ prompt_tokens: Count, cached_tokens: Count, completion_tokens: Count })),
    upstream: Nullable(Type.String()),
    ttft_ms: Nullable(Count),
    duration_ms: Count,
  }),
})
const line = TypeCompiler.Compile(Line)

/** One line of the spool, its end included; amounts are decimal strings. */
export function lineOf(spooled: SpooledClosing): string {
  return `${batchOf([spooled]).slice(1, -1)}\n`
}

/** Null when the text is no whole line: the process died while it wrote. */
export function parseLine(text: string): SpooledClosing | null {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return null
  }
  if (!line.Check(value) || !isId(value.closing.id)) return null
  const { account_id, closing }: Static<typeof Line> = value
  return { account_id, closing: { ...closing, charge_nano: BigInt(closing.charge_nano) } }
}

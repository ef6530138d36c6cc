import { afterAll, describe, expect, test } from "bun:test"
import { printUsd } from "../../src/money.ts"
import usages from "../fixtures/usage-cases.json"
import { callOf, type OperationName, openCases, scriptOf } from "./stage.ts"

/** D1, D4, D87: cases of real providers through a real gateway: what the client saw, what was charged, what was noted. */

const stage = await openCases()
afterAll(() => stage.close())

interface UsageCase {
  readonly name: string
  readonly kind: string
  readonly operation: string
  readonly want_nano: number
  readonly answer?: object
  readonly stream?: readonly unknown[]
  readonly note?: string
  readonly usage_reader?: string
}

/** A prompt of so many tokens. */
const LARGE = "word ".repeat(80_004)

function bodyOf({ want_nano, stream, operation }: UsageCase): object {
  const is_large = want_nano === 200_020_000
  return {
    ...usages.request,
    ...(is_large && { messages: [{ role: "user", content: LARGE }] }),
    ...(stream !== undefined && { stream: true }),
    ...(operation === "messages" && { max_tokens: usages.request.max_tokens }),
  }
}

describe("answers", () => {
  const cases: readonly UsageCase[] = usages.cases
  test.each(cases.map((one) => [`${one.kind}: ${one.name}`, one] as const))("%s", async (_, one) => {
    const sides = await stage.run(
      callOf({
        operation: one.operation as OperationName,
        model: one.usage_reader ?? "default",
        body: bodyOf(one),
        script: scriptOf(one.answer, one.stream),
      }),
    )
    const { answer, call, balance } = sides
    expect(answer.status).toBe(200)
    expect({ charge: call.charge, state: call.state }).toEqual({
      charge: printUsd(BigInt(one.want_nano)),
      state: "settled",
    })
    expect(call.notes).toEqual(one.note === undefined ? [] : [one.note])
    expect(balance).toBe(printUsd(100_000_000_000n - BigInt(one.want_nano)))
    if (one.answer !== undefined) expect(answer.json).toEqual(one.answer)
    else if (one.operation === "chat") expect(answer.body).not.toContain("prompt_tokens")
  })
})

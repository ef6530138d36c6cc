import { describe, expect, test } from "bun:test"
import { printUsd } from "../../src/money.ts"
import type { Answer } from "../support/answer.ts"
import { untilIs } from "../support/gateway.ts"
import { nanoOf } from "../support/price.ts"
import { chatCompletion, HELLO, heldBack, json, usage } from "../support/provider.ts"
import { expectError, type Said } from "./errors.ts"
import { chatBody, HELD, testHarness } from "./harness.ts"

const harness = await testHarness()

/** In nano-USD, as the configuration of the tests prices them. */
const INPUT = 1_000n
const OUTPUT = 4_000n

/** An answer that costs nothing, so that a call tells whether it was admitted and leaves the balance as it was. */
const blank = json(200, "")

async function isAdmitted(key: string, fields: object): Promise<boolean> {
  const requests = harness.provider.requests.length
  harness.provider.reply(blank)
  const answer = await harness.chat(key, fields)
  const reached = harness.provider.requests.length === requests + 1
  expect(answer.status).toBe(reached ? 502 : 402)
  return reached
}

/** What the prompt of `chatBody(fields)` holds: the bytes of its messages. */
function promptNano(fields: object): bigint {
  const [[, messages] = []] = Object.entries(chatBody(fields)).filter(([name]) => name === "messages")
  return BigInt(Buffer.byteLength(JSON.stringify(messages))) * INPUT
}

describe("D12 a 402 says what is needed, what there is, and what would fit", () => {
  const prompt = promptNano({})
  const rows: readonly [what: string, available_nano: bigint, fields: object, said: Said["fields"]][] = [
    [
      "a nano-USD is missing",
      prompt + OUTPUT * 1_000n - 1n,
      {},
      { needed: HELD, available: "0.004042999", max_tokens: 999 },
    ],
    [
      "each choice holds its own",
      prompt + OUTPUT * 29n,
      { n: 3, max_completion_tokens: 10 },
      { needed: printUsd(prompt + OUTPUT * 30n), available: printUsd(prompt + OUTPUT * 29n), max_tokens: 9 },
    ],
  ]
  test.each(rows)("%s", async (_, available_nano, fields, said) => {
    const { id, key } = await harness.account(printUsd(available_nano))
    await harness.untouched(id, async () => {
      const message = expectError(
        await harness.chat(key, fields),
        "insufficient_balance",
        said && { fields: said },
      )
      for (const value of Object.values(said ?? {})) expect(message).toContain(String(value))
    })
  })
})

describe("D12 what a call holds is nobody else's while it runs", () => {
  /** What there is for the fourth: a nano-USD too little. */
  const fourth = { needed: HELD, available: "0.004042999", max_tokens: 999 }
  test("50 callers with credit for 3: exactly 3 reach the provider", async () => {
    const { id, key } = await harness.account(printUsd(nanoOf(HELD) * 4n - 1n))
    const before = harness.provider.requests.length
    const { held, release } = heldBack(HELLO)
    harness.provider.reply(held)
    const refused: Answer[] = []
    const callers = Array.from({ length: 50 }, async () => {
      const answer = await harness.chat(key)
      if (answer.status === 402) refused.push(answer)
      return answer
    })
    const reached = () => harness.provider.requests.length - before
    await untilIs(() => refused.length + reached(), 50)
    expect([reached(), refused.length]).toEqual([3, 47])
    for (const answer of refused) expectError(answer, "insufficient_balance", { fields: fourth })
    expect(await harness.gateway.balance(id)).toMatchObject({
      balance: printUsd(nanoOf(HELD) * 4n - 1n),
      held: printUsd(nanoOf(HELD) * 3n),
      available: printUsd(nanoOf(HELD) - 1n),
    })
    release()
    const all = await Promise.all(callers)
    expect(all.filter(({ status }) => status === 200)).toHaveLength(3)
    expect(reached()).toBe(3)
    const left = nanoOf(HELD) * 4n - 1n - 3n * (10n * INPUT + 5n * OUTPUT)
    expect(await harness.gateway.balance(id)).toMatchObject({ balance: printUsd(left), held: "0" })
    const states = (await harness.gateway.calls(`?account=${id}`)).map(({ state }) => state)
    expect(states).toEqual(["settled", "settled", "settled"])
  })

  test("what is left of a hold can be held again as soon as the answer is whole (D32)", async () => {
    const { key } = await harness.account(HELD)
    harness.provider.reply(blank)
    for (let call = 0; call < 10; call++) expect((await harness.chat(key)).status).toBe(502)
  })

  test("D26 a credit and a correction hold for the next request", async () => {
    const { id, key } = await harness.account("0")
    const credit = (amount: string) => harness.gateway.admin("POST", `/accounts/${id}/credits`, { amount })
    for (let round = 0; round < 3; round++) {
      expect(await isAdmitted(key, {})).toBe(false)
      await credit(HELD)
      expect(await isAdmitted(key, {})).toBe(true)
      await credit(`-${HELD}`)
    }
  })

  test("D11 a charge above the hold may leave a debt, which the next 402 says", async () => {
    const { id, key } = await harness.account(HELD)
    harness.provider.replyOnce(json(200, chatCompletion("hello", { usage: usage(10, 2_000) })))
    expect((await harness.chat(key)).status).toBe(200)
    const debt = printUsd(nanoOf(HELD) - 10n * INPUT - 2_000n * OUTPUT)
    expect(debt).toStartWith("-")
    expect(await harness.gateway.balance(id)).toMatchObject({ balance: debt, held: "0", available: debt })
    expectError(await harness.chat(key), "insufficient_balance", {
      fields: { needed: HELD, available: debt },
    })
    expectError(await harness.count(key), "insufficient_balance")
  })
})

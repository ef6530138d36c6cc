import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { printUsd } from "../../src/money.ts"
import type { Answer } from "../support/answer.ts"
import { CHAT, untilIs } from "../support/gateway.ts"
import {
  chatCompletion,
  chatWords,
  HELLO,
  heldBack,
  json,
  type Script,
  sse,
  usage,
} from "../support/provider.ts"
import { expectError, type Said } from "./errors.ts"
import { chatBody, HELD, testHarness } from "./harness.ts"

const harness = await testHarness()

/** In nano-USD, as the configuration of the tests prices them. */
const INPUT = 1_000n
const OUTPUT = 4_000n
const MAX_OUTPUT_TOKENS = 1_000

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
    ["nothing would fit", 0n, {}, { needed: HELD, available: "0" }],
    [
      "not even one token would",
      prompt + OUTPUT - 1n,
      {},
      { needed: HELD, available: printUsd(prompt + OUTPUT - 1n) },
    ],
    [
      "one token would",
      prompt + OUTPUT,
      {},
      { needed: HELD, available: printUsd(prompt + OUTPUT), max_tokens: 1 },
    ],
    [
      "a nano-USD is missing",
      prompt + OUTPUT * 1_000n - 1n,
      {},
      { needed: HELD, available: "0.004042999", max_tokens: 999 },
    ],
    [
      "what the client asked for is too much",
      prompt + OUTPUT * 10n,
      { max_tokens: 11, max_completion_tokens: 5 },
      { needed: printUsd(prompt + OUTPUT * 11n), available: printUsd(prompt + OUTPUT * 10n), max_tokens: 10 },
    ],
    [
      "each choice holds its own",
      prompt + OUTPUT * 29n,
      { n: 3, max_completion_tokens: 10 },
      { needed: printUsd(prompt + OUTPUT * 30n), available: printUsd(prompt + OUTPUT * 29n), max_tokens: 9 },
    ],
    [
      "the prompt alone is too much",
      prompt,
      { messages: [{ role: "user", content: "é".repeat(1_000) }], max_tokens: 1 },
      { needed: "0.002034", available: printUsd(prompt) },
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

  test("the max_tokens it names is then admitted, and one more is not", async () => {
    const seen = new Set<boolean>()
    const trial = fc.record({
      available_nano: fc.bigInt({ min: 1n, max: 4_200_000n }),
      content: fc.string({ unit: "grapheme", maxLength: 40 }),
      n: fc.integer({ min: 1, max: 5 }),
    })
    await fc.assert(
      fc.asyncProperty(trial, async ({ available_nano, content, n }) => {
        const { key } = await harness.account(printUsd(available_nano))
        const fields = { n, messages: [{ role: "user", content }] }
        if (await isAdmitted(key, fields)) return
        const { error }: { error: { max_tokens?: number } } = JSON.parse(
          (await harness.chat(key, fields)).body,
        )
        const { max_tokens } = error
        seen.add(max_tokens === undefined)
        if (max_tokens !== undefined) {
          expect(await isAdmitted(key, { ...fields, max_tokens })).toBe(true)
          expect(await isAdmitted(key, { ...fields, max_completion_tokens: max_tokens })).toBe(true)
        }
        const one_more = (max_tokens ?? 0) + 1
        if (one_more > MAX_OUTPUT_TOKENS) return
        expect(await isAdmitted(key, { ...fields, max_tokens: one_more })).toBe(false)
      }),
      { numRuns: 10 },
    )
    expect(seen).toContain(false)
  })

  test("the client's own limit is held up to the model's, whatever is asked above it", async () => {
    const { key } = await harness.account(HELD)
    for (const max_tokens of [null, 1_000, 1_001, Number.MAX_SAFE_INTEGER]) {
      expect(await isAdmitted(key, { max_tokens })).toBe(true)
    }
  })
})

describe("D12 what a call holds is nobody else's while it runs", () => {
  /** What there is for the fourth: a nano-USD too little. */
  const fourth = { needed: HELD, available: "0.004042999", max_tokens: 999 }
  const answers: readonly [what: string, asked: object, script: Script][] = [
    ["JSON", {}, HELLO],
    ["streams", { stream: true }, sse(chatWords("hello"), { usage: usage(10, 5) })],
  ]
  test.each(answers)(
    "50 callers with credit for 3, %s: exactly 3 reach the provider",
    async (_, asked, script) => {
      const { id, key } = await harness.account(printUsd(nano(HELD) * 4n - 1n))
      const before = harness.provider.requests.length
      const { held, release } = heldBack(script)
      harness.provider.reply(held)
      const refused: Answer[] = []
      const callers = Array.from({ length: 50 }, async () => {
        const answer = await harness.chat(key, asked)
        if (answer.status === 402) refused.push(answer)
        return answer
      })
      const reached = () => harness.provider.requests.length - before
      await untilIs(() => refused.length + reached(), 50)
      expect([reached(), refused.length]).toEqual([3, 47])
      for (const answer of refused) expectError(answer, "insufficient_balance", { fields: fourth })
      expect(await harness.gateway.balance(id)).toMatchObject({
        balance: printUsd(nano(HELD) * 4n - 1n),
        held: printUsd(nano(HELD) * 3n),
        available: printUsd(nano(HELD) - 1n),
      })
      release()
      const all = await Promise.all(callers)
      expect(all.filter(({ status }) => status === 200)).toHaveLength(3)
      expect(reached()).toBe(3)
      const left = nano(HELD) * 4n - 1n - 3n * (10n * INPUT + 5n * OUTPUT)
      expect(await harness.gateway.balance(id)).toMatchObject({ balance: printUsd(left), held: "0" })
      expect((await harness.gateway.calls(`?account=${id}`)).map(({ state }) => state)).toEqual([
        "settled",
        "settled",
        "settled",
      ])
    },
  )

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
    const debt = printUsd(nano(HELD) - 10n * INPUT - 2_000n * OUTPUT)
    expect(debt).toStartWith("-")
    expect(await harness.gateway.balance(id)).toMatchObject({ balance: debt, held: "0", available: debt })
    expectError(await harness.chat(key), "insufficient_balance", {
      fields: { needed: HELD, available: debt },
    })
    expectError(await harness.count(key), "insufficient_balance")
  })

  test("one account's calls hold nothing of another's", async () => {
    const [one, two] = await Promise.all([harness.account(HELD), harness.account(HELD)])
    const { held, release } = heldBack(blank)
    harness.provider.replyOnce(held)
    const running = harness.chat(one.key, { model: CHAT })
    await untilIs(() => harness.gateway.balance(one.id), { available: "0" })
    expect(await harness.gateway.balance(two.id)).toMatchObject({ held: "0", available: HELD })
    expect(await isAdmitted(two.key, {})).toBe(true)
    expect(await isAdmitted(one.key, {})).toBe(false)
    release()
    expect((await running).status).toBe(502)
    expect(await isAdmitted(one.key, {})).toBe(true)
  })
})

/** An amount of USD of nine decimals or fewer. */
function nano(usd: string): bigint {
  const [whole = "", decimals = ""] = usd.split(".")
  return BigInt(whole + decimals.padEnd(9, "0"))
}

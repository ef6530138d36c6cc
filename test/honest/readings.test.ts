import { expect, test } from "bun:test"
import { parseUsd, printUsd } from "../../src/money.ts"
import { chatSums, sums } from "../usage/sums.ts"
import { type CaseCall, callOf, cost, recordOf, scriptOf, testCases } from "./stage.ts"

/** D1, D3, D4, D6, D64, D66, D87: more of each kind of wrong quantity in an answer, through a real gateway. */

const stage = await testCases()

interface Row extends Omit<CaseCall, "script" | "body"> {
  readonly body?: object
  readonly usage?: object
  readonly answer?: object
  readonly stream?: readonly unknown[]
  readonly charge: string
  readonly notes?: readonly string[]
  /** What the receipt says besides. */
  readonly aside?: { unread?: string[]; unexplained_tokens?: number; provider_cost?: string }
}

/** What the account of each call has. */
const CREDIT_NANO = 100_000_000_000n
const ASKED = { messages: [{ role: "user", content: "Say hello." }], max_tokens: 20_000 }
const INPUT = { input: "Say hello.", max_output_tokens: 20_000 }

const choice = (fields: object) => ({ choices: [{ index: 0, ...fields }] })
const role = choice({ delta: { role: "assistant" }, finish_reason: null })
const says = (content: string) => choice({ delta: { content }, finish_reason: null })
const finish = choice({ delta: {}, finish_reason: "stop" })
const tells = (usage: object) => ({ choices: [], usage })
const completion = (usage?: object) => ({
  id: "x",
  object: "chat.completion",
  ...choice({ message: { role: "assistant", content: "hi" }, finish_reason: "stop" }),
  ...(usage !== undefined && { usage }),
})
const response = (usage: object) => ({
  id: "r",
  object: "response",
  status: "completed",
  output: [{ type: "message", id: "m", role: "assistant", content: [{ type: "output_text", text: "hi" }] }],
  usage,
})
const thought = (reasoning_tokens: number) => ({ completion_tokens_details: { reasoning_tokens } })

/** A prompt of 80,004 tokens, whose answer has no count of its output. */
const LARGE = { ...ASKED, messages: [{ role: "user", content: "word ".repeat(80_004) }] }
const UNCOUNTED = { prompt_tokens: 80_004, total_tokens: 80_005, ...thought(1) }

const ROWS: Readonly<Record<string, Row>> = {
  "Q2 a total that nothing explains is noted and not charged": {
    usage: chatSums(758, 102, 1_725),
    charge: cost({ input: 758, output: 102 }),
    notes: ["total_unexplained"],
    aside: { unexplained_tokens: 865 },
  },
  "Q2 the same from a provider whose total is known to hold its thinking": {
    usage: chatSums(758, 102, 1_725),
    model: "gemini",
    charge: cost({ input: 758, output: 967 }),
  },
  "Q3 the same as a stream, which is not an empty one (rule 6)": {
    body: LARGE,
    stream: [role, choice({ delta: {}, finish_reason: "length" }), tells(UNCOUNTED), "[DONE]"],
    charge: cost({ input: 80_004, output: 1 }),
  },
  "Q7 usage of a chat stream in two parts": {
    stream: [
      tells(chatSums(1_000, 0, 1_000)),
      says("hello there"),
      finish,
      tells(chatSums(0, 50, 50)),
      "[DONE]",
    ],
    charge: cost({ input: 1_000, output: 50 }),
  },
  "Q1 all of the output is reasoning, beside 0": {
    stream: [role, says("hi"), finish, tells({ ...chatSums(7, 0, 519), ...thought(512) }), "[DONE]"],
    charge: cost({ input: 7, output: 512 }),
  },
  "Q6 images of a response that have no price": {
    operation: "responses",
    model: "without-images",
    body: INPUT,
    answer: response({
      ...sums(20, 1300, 1320),
      output_tokens_details: { image_tokens: 1290 },
    }),
    charge: cost({ input: 20, output: 1300 }),
    notes: ["unpriced"],
  },
  "Q8 a text in two places counts once": {
    stream: [
      choice({ text: "x".repeat(40), delta: { content: "x".repeat(40) }, finish_reason: null }),
      finish,
      "[DONE]",
    ],
    charge: cost({ output: 10 }),
  },
  "Q8 a last frame with the whole message counts once": {
    stream: [
      says("y".repeat(24)),
      says("y".repeat(24)),
      choice({ message: { role: "assistant", content: "y".repeat(48) }, finish_reason: "stop" }),
      "[DONE]",
    ],
    charge: cost({ output: 12 }),
  },
}

test.each(Object.entries(ROWS))("what an answer cost: %s", async (_, row) => {
  const { stream, operation = "chat", model = "default" } = row
  const said = row.answer ?? completion(row.usage)
  const body = { ...(row.body ?? ASKED), ...(stream !== undefined && { stream: true }) }
  const sides = await stage.run(callOf({ operation, model, body, script: scriptOf(said, stream) }))
  expect(recordOf(sides)).toEqual({ charge: row.charge, notes: row.notes ?? [], state: "settled" })
  expect(sides).toMatchObject({ held: "0", balance: printUsd(CREDIT_NANO - (parseUsd(row.charge) ?? 0n)) })
  const { unread, unexplained_tokens, provider_cost } = sides.call
  const nothing = { unread: [], unexplained_tokens: 0, provider_cost: null }
  expect({ unread, unexplained_tokens, provider_cost }).toEqual({ ...nothing, ...row.aside })
  expect(sides.answer.status).toBe(200)
  if (row.usage !== undefined) expect(sides.answer.json).toEqual(said)
  else if (stream !== undefined && operation === "chat")
    expect(sides.answer.body).not.toContain('"prompt_tokens"')
  expect(sides.requests).toHaveLength(1)
})

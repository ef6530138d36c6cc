import { expect, test } from "bun:test"
import { printUsd } from "../../src/money.ts"
import { testStage } from "../http/sides.ts"
import { PROVIDER_KEY } from "../support/gateway.ts"
import { json, type Script, sse } from "../support/provider.ts"
import { dataUrl, png, wav } from "./files.ts"

/** D6, D7, D8, D67: quantities of an answer that only a whole gateway can get wrong. */

const stage = await testStage((url) => ({
  stream: { keepalive: "60s", commit_after: "60s", stall: "30s" },
  upstreams: { openai: { family: "chat", base_url: `${url}/v1`, api_key: PROVIDER_KEY } },
  models: [
    {
      name: "default",
      family: "chat",
      upstreams: [{ use: "openai" }],
      price: { input: "2.50", output: "10.00" },
      max_output_tokens: 65_536,
    },
  ],
}))
const cost = (input: number, output: number) => printUsd(BigInt(2_500 * input + 10_000 * output))

const choice = (fields: object, index = 0) => ({ choices: [{ index, finish_reason: null, ...fields }] })
const says = (content: string, index = 0) => choice({ delta: { content } }, index)
const finish = (index = 0) => choice({ delta: {}, finish_reason: "stop" }, index)
const USAGE = { choices: [], usage: { prompt_tokens: 40, completion_tokens: 7, total_tokens: 47 } }
const [A_PICTURE, A_SOUND] = [
  dataUrl("image/png", Buffer.concat([png(64, 64), Buffer.alloc(300_000)])),
  dataUrl("audio/wav", wav(30)),
]

interface Row {
  readonly body: object
  readonly path?: string
  readonly script: Script
  readonly recorded: object
}

const streamed = (events: readonly object[], n: number, recorded: object, done = true): Row => ({
  body: { messages: [{ role: "user", content: "hi" }], max_tokens: 20_000, stream: true, n },
  script: sse(events, { done }),
  recorded: { ending: "completed", ...recorded },
})

/** Of a medium 4,096 tokens count, and the text around its data. */
const embedded = (input: string): Row => ({
  body: { input },
  path: "/v1/embeddings",
  script: json(200, { object: "list", data: [{ object: "embedding", index: 0, embedding: [0.5] }] }),
  recorded: { charge: cost(Math.floor((4_096 + input.indexOf(",") + 3) / 4), 0), basis: "estimate" },
})

const ROWS: Readonly<Record<string, Row>> = {
  "Q8 a text in two places counts once": streamed(
    [choice({ text: "x".repeat(40), delta: { content: "x".repeat(40) } }), finish()],
    1,
    { charge: cost(0, 10), basis: "estimate" },
  ),
  "Q8 a last frame with the whole message counts once": streamed(
    [
      says("y".repeat(24)),
      says("y".repeat(24)),
      choice({ message: { role: "assistant", content: "y".repeat(48) }, finish_reason: "stop" }),
    ],
    1,
    { charge: cost(0, 12), basis: "estimate" },
  ),
  "Q14 a picture among texts that are embedded": embedded(A_PICTURE),
  "Q14 a sound among texts that are embedded": embedded(A_SOUND),
  "Q17 final usage after one choice of two that began is the end": streamed(
    [says("hi"), finish(), USAGE],
    2,
    { charge: cost(40, 7), failure: null },
    false,
  ),
  "Q17 final usage after two choices of three that began is the end": streamed(
    [says("hi"), says("ho", 1), finish(1), finish(), USAGE],
    3,
    { charge: cost(40, 7), failure: null },
    false,
  ),
}

test.each(Object.entries(ROWS))(
  "%s",
  async (_, { body, path = "/v1/chat/completions", script, recorded }) => {
    const { answer, call } = await stage.run({
      body: { model: "default", ...body },
      script,
      usd: "100",
      sending: { path },
    })
    expect(call).toMatchObject({ state: "settled", ...recorded })
    expect(answer.status).toBe(200)
    if ("stream" in body) expect(answer.body).toEndWith("data: [DONE]\n\n")
    expect(answer.body).not.toContain("error")
  },
)

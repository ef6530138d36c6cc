import { responseEvent, responseUsage, textItem, textStream } from "../support/responses.ts"
import { flood, RELEASED } from "./hostile.ts"
import { describeMemory, openHostile } from "./hostile-family.ts"

/** The floods of provider.test.ts, as far as responses are read in their own way (D66). */

const hostile = await openHostile({
  family: "chat",
  path: "/v1",
  draft: (key, stream) => ({
    target: "/v1/responses",
    headers: [`authorization: Bearer ${key}`],
    body: { model: "chat-model", input: "hello", stream },
  }),
  words: (...words) => textStream(words, responseUsage(10, 5)),
})

const OBSERVED = { state: "settled", basis: "estimate", ending: "upstream_lost" }
const END = "event: response.completed"

describeMemory(hostile, END, [
  [
    "300,000 states, each of them new",
    true,
    flood(300, (n) => responseEvent("response.web_search_call.searching", { output_index: n })),
    "HTTP/1.1 200",
    { ...RELEASED, failure: "no_output" },
  ],
  [
    "100,000 words, each of them new",
    true,
    flood(100, (n) =>
      responseEvent("response.output_text.delta", {
        item_id: "m",
        output_index: 0,
        content_index: 0,
        sequence_number: n,
        delta: `${n}`,
      }),
    ),
    "event: error\n",
    OBSERVED,
  ],
  [
    "100,000 items, each of them new",
    true,
    flood(100, (n) =>
      responseEvent("response.output_item.done", { output_index: n, item: textItem("x", `m${n}`) }),
    ),
    "event: error\n",
    OBSERVED,
  ],
  [
    "100,000 parts of an item, each of them new",
    true,
    flood(100, (n) =>
      responseEvent("response.output_text.delta", {
        item_id: "m",
        output_index: 0,
        content_index: n,
        delta: "x",
      }),
    ),
    "event: error\n",
    OBSERVED,
  ],
])

/** What the demo's models say: something true about Tollgate that fits the question, chosen by its words. Deterministic. */

interface Topic {
  readonly words: RegExp
  readonly short: string
  readonly long: string
}

const TOPICS: readonly [Topic, ...Topic[]] = [
  {
    words: /\b(tollgate|gateway|what are you|who are you)\b/i,
    short:
      "Tollgate stands between your programs and the model providers: one address, one set of keys, and books in which every call is charged exactly once.",
    long: "Programs keep their SDKs and change only the base URL. Operators get one place for accounts, keys, prices and providers, and an audit that recomputes every balance from the journal of calls.",
  },
  {
    words: /\b(reserv\w*|holds?|held|settle\w*|release\w*)\b/i,
    short:
      "A reservation is money set aside before a call leaves: the most it can cost. When the call ends it is settled once, at what the provider reported, and the rest is released.",
    long: "That is why fifty callers with credit for three cannot spend it fifty times: the fourth hold no longer fits, and its call is refused before any provider sees it.",
  },
  {
    words:
      /\b(bill\w*|costs?|prices?|pric\w+|charge\w*|money|pay\w*|usd|dollars?|balance|credits?|budget)\b/i,
    short:
      "Money is counted in whole nano-dollars: tokens times their price, rounded up once per call, never a fraction in between.",
    long: "Cached prompt tokens have a price of their own and are part of the prompt, never on top of it. Where a provider reports no usage, only what was seen of its output is estimated, and an empty stream costs nothing.",
  },
  {
    words: /\b(stream\w*|sse|events?|latency|fast|slow)\b/i,
    short:
      "While you read this, each word passes through the gateway as the provider sent it: whole events, observed but not rewritten, and at once.",
    long: "A slow reader slows the provider instead of filling memory, silence is bridged by comments, and the last event leaves when the charge is in the books.",
  },
  {
    words: /\b(crash\w*|kill\w*|fail\w*|disconnect\w*|lost|los[es]+|safe\w*|durab\w*|restart\w*)\b/i,
    short:
      "When a gateway dies in the middle of a stream, its lease runs out, another process closes its calls at what was last seen, and the held money is free again.",
    long: "When a client leaves, the provider is stopped and what it had produced is charged. When the database is away, streams go on and their settlements wait on disk.",
  },
  {
    words: /\b(keys?|auth\w*|secrets?|credentials?|tokens?)\b/i,
    short:
      "A key is shown once, and only its hash is kept. Revoking it works for the very next request, because the statement that holds the money reads the key too.",
    long: "A key may be limited to some models and may expire. Providers never see it: they are sent the gateway's own credential.",
  },
  {
    words: /\b(sdks?|openai|anthropic|clients?|curl|apis?|python|javascript|typescript)\b/i,
    short:
      "Any OpenAI SDK works with this address and /v1 as its base URL; the Anthropic SDK works with the bare address and counts tokens.",
    long: "Errors have one shape that both families read, and a list of models that both can page through. The reference of every operation is at /docs.",
  },
]

/** How the two chat models differ. */
export type Style = "small" | "large"

const MAX_ECHO_CHARS = 160

/** The answer to `question`; further choices of one call talk of something else. */
export function answer(question: string, style: Style, choice: number): string {
  const topic = topicOf(question, choice)
  const asked = echo(question)
  if (style === "small") return `You asked: “${asked}” ${topic.short}`
  return [
    `You asked: “${asked}” Here is the longer answer.`,
    topic.short,
    topic.long,
    "One more thing: no model was asked. This is the demo's provider, which lives in the gateway's own process, counts its own tokens and reports them as a real one would. The charge is real all the same: look the call up by its x-request-id.",
  ].join("\n\n")
}

function topicOf(question: string, choice: number): Topic {
  const found = TOPICS.findIndex(({ words }) => words.test(question))
  return TOPICS[(Math.max(found, 0) + choice) % TOPICS.length] ?? TOPICS[0]
}

function echo(question: string): string {
  const line = question.replace(/\s+/g, " ").trim()
  const chars = Array.from(line.slice(0, 2 * MAX_ECHO_CHARS))
  return chars.length > MAX_ECHO_CHARS ? `${chars.slice(0, MAX_ECHO_CHARS).join("")}…` : line
}

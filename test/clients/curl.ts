import {
  type CallOptions,
  type Client,
  type Heard,
  MUTE,
  PROMPT,
  type Session,
  type StreamOptions,
  WITH_COST,
} from "./client.ts"

/** `curl --fail-with-body` at an error: its exit code, and the answer that it printed. */
class CurlError extends Error {
  readonly answer: Answer

  constructor(exit: number, answer: Answer) {
    super()
    this.name = `exit code ${exit}`
    this.answer = answer
  }
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The command line; `--retry 2`, which is no default of it. */
export const CURL: Client = {
  name: "curl",
  family: "chat",
  connect: (cell, { key = cell.key, model } = {}) =>
    session(cell.url, key, model ?? cell.model, model ?? cell.counter),
  shows: {
    status: "answer.status",
    code: "answer.body.error.code",
    type: "answer.body.error.type",
    message: "answer.body.error.message",
    "request id": 'answer.headers["x-request-id"]',
  },
  named: (thrown) =>
    thrown instanceof CurlError
      ? { answer: { ...thrown.answer, body: JSON.parse(thrown.answer.body) } }
      : { error: thrown },
  repeats: { times: 2, by_default: "never; here `--retry 2`" },
  obeys_should_retry: false,
  repeats_bare_429: true,
  lacks: { useTool: "its user writes each round by hand" },
}

function session(url: string, key: string, model: string, counter: string): Session {
  const bearer = `authorization: Bearer ${key}`
  const ask = (fields: object) =>
    JSON.stringify({ model, messages: [{ role: "user", content: PROMPT }], ...fields })
  const post = (data: string, ...headers: string[]) => [
    ...["content-type: application/json", ...headers].flatMap((header) => ["-H", header]),
    "-d",
    data,
  ]
  return {
    ...MUTE,
    async chat({ cost, headers, ...options } = {}) {
      const data = ask({ ...(cost && WITH_COST) })
      const answer = await curl(
        [`${url}/v1/chat/completions`, ...post(data, bearer, ...linesOf(headers))],
        options,
      )
      const { choices, usage } = JSON.parse(answer.body)
      return heard(choices[0].message.content, usage, answer)
    },
    async stream({ usage = false, cost, ...options }: StreamOptions = {}) {
      const data = ask({
        stream: true,
        ...(usage && { stream_options: { include_usage: true } }),
        ...(cost && WITH_COST),
      })
      const answer = await curl([`${url}/v1/chat/completions`, ...post(data, bearer)], options)
      const events = [...answer.body.matchAll(/^data: (\{.*)$/gm)].map(([, event = ""]) => JSON.parse(event))
      const text = events.map(({ choices }) => choices?.[0]?.delta.content ?? "").join("")
      const complaint = events.find(({ error }) => error !== undefined)
      return { ...heard(text, events.findLast((event) => event.usage)?.usage, answer), complaint }
    },
    async models() {
      const { body } = await curl([`${url}/v1/models`, "-H", bearer])
      return JSON.parse(body).data.map(({ id }: { readonly id: string }) => id)
    },
    async count() {
      const data = JSON.stringify({ model: counter, messages: [{ role: "user", content: PROMPT }] })
      const headers = [`x-api-key: ${key}`, "anthropic-version: 2023-06-01"]
      const { body } = await curl([`${url}/v1/messages/count_tokens`, ...post(data, ...headers)])
      return JSON.parse(body).input_tokens
    },
  }
}

function linesOf(headers: CallOptions["headers"] = {}): string[] {
  return Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
}

/** Runs curl as its users do; a signal kills it. */
async function curl(parameters: readonly string[], { signal, onText }: StreamOptions = {}): Promise<Answer> {
  const child = Bun.spawn(["curl", "-qsN", "-D", "-", "--fail-with-body", "--retry", "2", ...parameters], {
    stdio: ["ignore", "pipe", "inherit"],
    env: {},
    ...(signal && { signal }),
  })
  const decoder = new TextDecoder()
  let printed = ""
  for await (const bytes of child.stdout) {
    const text = decoder.decode(bytes, { stream: true })
    printed += text
    if (text.includes('"content":"')) onText?.(text)
  }
  const exit = await child.exited
  const answer = lastAnswer(printed)
  if (exit !== 0) throw new CurlError(exit, answer)
  return answer
}

/** Those of repeats follow each other, each with its head. */
function lastAnswer(printed: string): Answer {
  const [head = "", ...body] = printed.slice(printed.lastIndexOf("HTTP/1.1 ")).split("\r\n\r\n")
  const [line = "", ...fields] = head.split("\r\n")
  const headers = fields.map((field) => {
    const colon = field.indexOf(":")
    return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()] as const
  })
  return {
    status: Number(line.split(" ")[1]),
    headers: Object.fromEntries(headers),
    body: body.join("\r\n\r\n"),
  }
}

interface Usage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly prompt_tokens_details: { readonly cached_tokens: number }
  readonly cost?: number
}

function heard(text: string, usage: Usage | undefined, { headers }: Answer): Heard {
  const tokens = usage && {
    prompt: usage.prompt_tokens,
    completion: usage.completion_tokens,
    cached: usage.prompt_tokens_details.cached_tokens,
  }
  return { text, tokens: tokens ?? null, cost: usage?.cost, request_id: headers["x-request-id"] ?? null }
}

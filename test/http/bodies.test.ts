import { afterAll, describe, expect, spyOn, test } from "bun:test"
import { constants, createZstdCompress, gzipSync, zstdCompressSync } from "node:zlib"
import { Memory, Pace } from "../../src/admission/memory.ts"
import { readBody } from "../../src/routes/request-body.ts"
import { CHAT, chat, chatModel, PROVIDER_KEY, until } from "../support/gateway.ts"
import {
  chatChunk,
  chatCompletion,
  chatWords,
  heldBack,
  json,
  sse,
  sseEvent,
  usage,
} from "../support/provider.ts"
import { requestBytes } from "../support/request.ts"
import { thrown } from "../support/thrown.ts"
import { expectError } from "./errors.ts"
import { CANARY, chatBody, countBody, openHarness, testHarness } from "./harness.ts"

const BODY_BYTES = 64 * 1024
const BODY_TIMEOUT_MS = 150

const harness = await testHarness({ limits: { body: "64KiB", body_timeout: "60s" } })
const account = await harness.account()

const JSON_TYPE = "content-type: application/json"

/** The bytes of a chat request whose body is exactly this text. */
function request(text: string | Uint8Array, headers: readonly string[] = [JSON_TYPE], key = account.key) {
  return requestBytes({
    method: "POST",
    target: "/v1/chat/completions",
    headers: [`authorization: Bearer ${key}`, ...headers],
    body: text,
  })
}

/** A chat request's head, for a body that is sent by hand. */
function head(...lines: readonly string[]): string {
  return headOf(account.key, ...lines)
}

function headOf(key: string, ...lines: readonly string[]): string {
  return [
    "POST /v1/chat/completions HTTP/1.1",
    "host: gateway.test",
    `authorization: Bearer ${key}`,
    "content-type: application/json",
    ...lines,
    "",
    "",
  ].join("\r\n")
}

describe("D18 a body over limits.body is a 413", () => {
  const padded = (bytes: number) => JSON.stringify(chatBody()).padEnd(bytes)

  test("exactly the limit passes", async () => {
    expect((await harness.say(request(padded(BODY_BYTES)))).status).toBe(200)
  })

  test("exactly the limit passes in chunks", async () => {
    expect(
      (await harness.say(head("transfer-encoding: chunked") + chunked(padded(BODY_BYTES)), "POST")).status,
    ).toBe(200)
  })

  const rows: readonly [what: string, bytes: () => string | Uint8Array][] = [
    ["one byte more, with its length", () => request(padded(BODY_BYTES + 1))],
    ["one byte more, in chunks", () => head("transfer-encoding: chunked") + chunked(padded(BODY_BYTES + 1))],
    ["a length alone, before a byte of it", () => head(`content-length: ${BODY_BYTES + 1}`)],
    ["chunks without end", () => head("transfer-encoding: chunked") + chunk("x".repeat(BODY_BYTES + 1))],
  ]
  test.each(rows)("%s", async (_, bytes) => {
    await harness.untouched(account.id, async () => {
      expectError(await harness.say(bytes(), "POST"), "request_too_large")
    })
  })
})

describe("D31 a body that does not arrive in time is a 408", async () => {
  const hasty = await openHarness({ limits: { body: "64KiB", body_timeout: `${BODY_TIMEOUT_MS}ms` } })
  const of = await hasty.account()
  afterAll(() => hasty.close())

  const rows: readonly [what: string, start: () => string][] = [
    ["with a length", () => `${headOf(of.key, "content-length: 200")}{"model":`],
    ["in chunks", () => `${headOf(of.key, "transfer-encoding: chunked")}${chunk('{"model":')}`],
    ["not a byte of it", () => headOf(of.key, "content-length: 200")],
  ]
  test.each(rows)("%s", async (_, start) => {
    await hasty.untouched(of.id, async () => {
      expectError(await hasty.say(start(), "POST"), "request_timeout")
    })
  })

  test("bytes that trickle in do not extend the time", async () => {
    const line = hasty.dial()
    line.send(headOf(of.key, "content-length: 200"))
    const trickle = setInterval(() => line.send(" "), BODY_TIMEOUT_MS / 5)
    const answer = hasty.note(await line.answer("POST"))
    clearInterval(trickle)
    line.leave()
    expectError(answer, "request_timeout")
  })

  test("a body in many pieces that is in time passes", async () => {
    const line = harness.dial()
    const text = JSON.stringify(chatBody())
    line.send(head(`content-length: ${text.length}`))
    for (const character of text) line.send(character)
    expect((await line.answer("POST")).status).toBe(200)
    line.leave()
  })
})

describe("D15 a body that does not arrive whole starts nothing, and is counted as a 400", () => {
  const whole = JSON.stringify(chatBody())
  const rows: readonly [what: string, start: () => string, end: "halfClose" | "leave"][] = [
    [
      "a length, then the connection is closed",
      () => head(`content-length: ${whole.length + 1}`) + whole,
      "halfClose",
    ],
    [
      "chunks, then the connection is closed",
      () => head("transfer-encoding: chunked") + chunk(whole),
      "halfClose",
    ],
    ["chunks, then the connection breaks", () => head("transfer-encoding: chunked") + chunk(whole), "leave"],
    [
      "chunks, and one that is none",
      () => `${head("transfer-encoding: chunked")}${chunk(whole)}zz\r\n`,
      "halfClose",
    ],
  ]
  test.each(rows)("%s", async (_, start, end) => {
    await harness.untouched(account.id, async () => {
      const before = await refused()
      const line = harness.dial()
      line.send(start())
      // Another connection's whole exchange: what the first one sent has been read by then.
      expect((await harness.ask({ target: "/livez" })).status).toBe(200)
      line[end]()
      expect(await line.over).not.toContain("200 OK")
      expect(await until(refused, (now) => now > before)).toBe(before + 1)
    })
  })
})

/** Chat requests that were answered with a 400, or would have been. */
async function refused(): Promise<number> {
  const body = await harness.gateway.metrics()
  const [, count = "0"] =
    /^tollgate_requests_total\{route="\/v1\/chat\/completions",status="400"\} (\d+)$/m.exec(body) ?? []
  return Number(count)
}

describe("D15 a body that does not say it is plain UTF-8 JSON is a 415", () => {
  const refused: readonly (readonly string[])[] = [
    [],
    ["content-type:"],
    ["content-type: text/plain"],
    ["content-type: multipart/form-data; boundary=x"],
    ["content-type: application/problem+json"],
    ["content-type: application/jsonp"],
    ["content-type: application/json, text/plain"],
    ["content-type: application/json; charset=latin1"],
    [JSON_TYPE, "content-type: text/plain"],
    [JSON_TYPE, "content-encoding: br"],
    [JSON_TYPE, "content-encoding: identity, gzip"],
    [JSON_TYPE, "content-encoding: constructor"],
    ["content-encoding: gzip"],
    [JSON_TYPE, `content-encoding: ${CANARY}`],
  ]
  test.each(refused.map((headers) => [headers]))("%j", async (headers) => {
    await harness.untouched(account.id, async () => {
      expectError(await harness.say(request(JSON.stringify(chatBody()), headers)), "unsupported_media_type")
    })
  })

  const accepted: readonly (readonly string[])[] = [
    ["Content-Type: Application/JSON"],
    ["content-type: application/json;charset=utf-8"],
    ['content-type: application/json; charset="UTF-8"'],
    ["content-type:application/json;"],
    [JSON_TYPE, "content-encoding: identity"],
  ]
  test.each(accepted.map((headers) => [headers]))("%j passes", async (headers) => {
    expect((await harness.say(request(JSON.stringify(chatBody()), headers))).status).toBe(200)
  })
})

describe.each([
  ["gzip", gzipSync],
  ["zstd", zstdCompressSync],
] as const)("D18 a body in %s", (coding, encode) => {
  const draft = (body: Uint8Array, key = account.key) =>
    request(body, [JSON_TYPE, `content-encoding: ${coding}`], key)
  const whole = encode(JSON.stringify(chatBody()))

  test("is decoded, and billed as what it says", async () => {
    const asked = harness.provider.requests.length
    const answer = await harness.say(draft(whole))
    expect(answer.status).toBe(200)
    expect(harness.provider.requests[asked]).toMatchObject({
      json: { messages: [{ role: "user", content: CANARY }] },
    })
    expect(harness.provider.requests[asked]?.headers).not.toHaveProperty("content-encoding")
    const plain = await harness.chat(account.key)
    const held = async ({ headers }: typeof plain) =>
      (await harness.gateway.call(headers["x-request-id"] ?? "")).held
    expect(await held(answer)).toBe(await held(plain))
  })

  test("in chunks of a byte", async () => {
    const chunks = [...whole].map((byte) => Buffer.from([0x31, 0x0d, 0x0a, byte, 0x0d, 0x0a]))
    const start = Buffer.from(head(`content-encoding: ${coding}`, "transfer-encoding: chunked"))
    const bytes = Buffer.concat([start, ...chunks, Buffer.from("0\r\n\r\n")])
    expect((await harness.say(bytes, "POST")).status).toBe(200)
  })

  test("of exactly limits.body passes", async () => {
    expect((await harness.say(draft(encode(JSON.stringify(chatBody()).padEnd(BODY_BYTES))))).status).toBe(200)
  })

  const rows: readonly [
    what: string,
    body: () => Uint8Array,
    code: "invalid_request" | "request_too_large",
  ][] = [
    [
      "one byte over limits.body",
      () => encode(JSON.stringify(chatBody()).padEnd(BODY_BYTES + 1)),
      "request_too_large",
    ],
    ["a bomb", () => encode(Buffer.alloc(50_000_000)).subarray(0, BODY_BYTES), "request_too_large"],
    [
      "more than limits.body that decodes to nothing",
      () => repeated(encode(""), BODY_BYTES + 1),
      "request_too_large",
    ],
    ["not encoded", () => Buffer.from(JSON.stringify(chatBody())), "invalid_request"],
    ["cut", () => whole.subarray(0, -20), "invalid_request"],
    ["empty", () => new Uint8Array(), "invalid_request"],
    ["not JSON", () => encode(`{"model":`), "invalid_request"],
  ]
  test.each(rows)("%s", async (_, body, code) => {
    await harness.untouched(account.id, async () => {
      expectError(await harness.say(draft(body()), "POST"), code)
    })
  })

  test("a bomb is refused before all of it came, and D30 one without a key before any", async () => {
    for (const [key, code] of [
      [account.key, "request_too_large"],
      ["tg_live_nobody", "invalid_api_key"],
    ] as const) {
      const line = harness.dial()
      const bomb = draft(encode(Buffer.alloc(200_000_000)).subarray(0, BODY_BYTES), key)
      line.send(bomb.subarray(0, -1))
      expectError(harness.note(await line.answer("POST")), code)
      line.leave()
    }
  })
})

test("D77 what a body decodes to takes its memory as it is decoded, and stops without", async () => {
  const limits = { body_bytes: 1_000_000, memory_bytes: 800_000, body_timeout_ms: 60_000 }
  const read = (bytes: number) => {
    const headers = { "content-type": "application/json", "content-encoding": "gzip" }
    const sent = new Request("http://x/", { method: "POST", headers, body: gzipSync(Buffer.alloc(bytes)) })
    return readBody(sent, limits, new Memory(0).of("a", limits))
  }
  expect((await read(150_000)).byteLength).toBe(150_000)
  expect(await thrown(read(250_000))).toMatchObject({ code: "overloaded" })
})

test.each(["gzip", "zstd"])("D77 a decoder of %s takes memory before anything has come", async (coding) => {
  const limits = { body_bytes: 200_000, memory_bytes: 1_000_000, body_timeout_ms: 100 }
  const memory = new Memory(0)
  const headers = { "content-type": "application/json", "content-encoding": coding }
  const waiting = Array.from({ length: 10 }, async () => {
    const body = new ReadableStream({ pull: () => Promise.withResolvers<void>().promise })
    return await readBody(
      new Request("http://x/", { method: "POST", headers, body }),
      limits,
      memory.of("a", limits),
    )
  })
  const ends = (await Promise.allSettled(waiting)).map((end) => end.status === "rejected" && end.reason.code)
  expect(ends).toEqual([...Array(7).fill("request_timeout"), ...Array(3).fill("overloaded")])
})

test.each([
  ["direct", "when its provider begins to answer", 200],
  ["fetch", "when its answer has ended", 503],
] as const)(
  "D77 with the transport %s, the memory of a body is given back %s",
  async (transport, _, status) => {
    const limits = { body: "64KiB", memory: "300KiB" }
    const own = await openHarness((provider_url) => {
      const first = { family: "chat", base_url: `${provider_url}/v1`, api_key: PROVIDER_KEY, transport }
      return { limits, upstreams: { first }, models: [chatModel(CHAT)] }
    })
    const { key } = await own.account()
    const large = { ...chatBody(), user: "x".repeat(50_000) }
    const { held, release } = heldBack((exchange) => void exchange.end())
    own.provider.replyOnce(async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(sseEvent(chatChunk({ content: "hi" })))
      await held(exchange)
    })
    // Its first event is sent once the gateway has the provider's head.
    const slow = await chat(own.gateway, key, { ...large, stream: true })
    expect((await own.chat(key, large)).status).toBe(status)
    release()
    await slow.text()
    if (status === 503) expect((await own.chat(key, large)).status).toBe(200)
    await own.close()
  },
)

test("D78 each call, JSON answer and part of a stream takes its turn, short ones as if they had 2 KiB", async () => {
  const read = spyOn(Pace.prototype, "read")
  const answers = ["x", "x".repeat(70_000)].map((words) =>
    JSON.stringify(chatCompletion(words, { usage: usage(10, 5) })),
  )
  for (const answer of answers) {
    harness.provider.replyOnce(json(200, answer))
    expect((await harness.chat(account.key)).status).toBe(200)
  }
  harness.provider.replyOnce(sse(chatWords("a", "b"), { usage: usage(10, 5) }))
  expect((await harness.chat(account.key, { stream: true })).status).toBe(200)
  const turns = [2_048, 2_048, 2_048, answers[1]?.length ?? 0, 2_048]
  const [parts, whole] = [read.mock.calls.slice(turns.length), read.mock.calls.slice(0, turns.length)]
  read.mockRestore()
  expect(whole).toEqual(turns.map((bytes) => [account.id, bytes]))
  expect(parts.length).toBeGreaterThan(0)
  expect(new Set(parts.map(String))).toEqual(new Set([`${account.id},2048`]))
})

test.each(["/v1/messages/count_tokens", "/v1/quote", "/v1/keys"])(
  "D78 a request to %s takes its turn before it is parsed, as long as its body is",
  async (target) => {
    const read = spyOn(Pace.prototype, "read")
    for (const body of ["{}", `{"x":"${"x".repeat(10_000)}"}`]) {
      const headers = [`authorization: Bearer ${account.key}`, "anthropic-version: 2023-06-01", JSON_TYPE]
      await harness.say(requestBytes({ method: "POST", target, headers, body }))
    }
    const turns = read.mock.calls.slice(0, 2)
    read.mockRestore()
    expect(turns).toEqual([
      [account.id, 2_048],
      [account.id, 10_008],
    ])
  },
)

test("D78 a long token count takes another turn before it is printed for the provider", async () => {
  const read = spyOn(Pace.prototype, "read")
  const messages = [{ role: "user", content: "x".repeat(10_000) }]
  expect((await harness.count(account.key, { messages })).status).toBe(200)
  const turns = read.mock.calls.slice()
  read.mockRestore()
  const { length } = JSON.stringify(countBody({ messages }))
  expect(turns).toEqual([
    [account.id, length],
    [account.id, length],
  ])
})

test("D18 a zstd window that needs more than 8 MiB is a 400", async () => {
  const lines = [JSON_TYPE, "content-encoding: zstd"]
  for (const [log, status] of [
    [23, 200],
    [24, 400],
  ] as const) {
    // As a stream, whose size the encoder does not know, so that it names the whole window.
    const encoder = createZstdCompress({ params: { [constants.ZSTD_c_windowLog]: log } })
    encoder.write(JSON.stringify(chatBody()), () => encoder.end())
    const answer = await harness.say(request(Buffer.concat(await Array.fromAsync(encoder)), lines))
    expect(answer.status).toBe(status)
  }
})

/** So many bytes of the same bytes, over and over. */
function repeated(bytes: Uint8Array, size: number): Uint8Array {
  return Buffer.alloc(size, bytes)
}

function chunk(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
}

/** A whole body in chunks of a thousand characters. */
function chunked(text: string): string {
  const pieces = text.match(/.{1,1000}/g) ?? []
  return `${pieces.map(chunk).join("")}0\r\n\r\n`
}

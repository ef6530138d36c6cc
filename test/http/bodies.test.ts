import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { until } from "../support/gateway.ts"
import { requestBytes } from "../support/request.ts"
import { expectError } from "./errors.ts"
import { CANARY, chatBody, type Harness, openHarness } from "./harness.ts"

const BODY_BYTES = 64 * 1024
const BODY_TIMEOUT_MS = 150

let harness: Harness
let account: { id: string; key: string }
beforeAll(async () => {
  harness = await openHarness({ limits: { body: "64KiB", body_timeout: `${BODY_TIMEOUT_MS}ms` } })
  account = await harness.account()
})
afterAll(() => harness.close())

/** The bytes of a chat request whose body is exactly this text. */
function request(text: string, headers: readonly string[] = ["content-type: application/json"]) {
  return requestBytes({
    method: "POST",
    target: "/v1/chat/completions",
    headers: [`authorization: Bearer ${account.key}`, ...headers],
    body: text,
  })
}

/** A chat request's head, for a body that is sent by hand. */
function head(...lines: readonly string[]): string {
  return [
    "POST /v1/chat/completions HTTP/1.1",
    "host: gateway.test",
    `authorization: Bearer ${account.key}`,
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
    ["a length of 3 GB", () => head("content-length: 3000000000")],
    ["chunks without end", () => head("transfer-encoding: chunked") + chunk("x".repeat(BODY_BYTES + 1))],
  ]
  test.each(rows)("%s", async (_, bytes) => {
    await harness.untouched(account.id, async () => {
      expectError(await harness.say(bytes(), "POST"), "request_too_large")
    })
  })
})

describe("D31 a body that does not arrive in time is a 408", () => {
  const rows: readonly [what: string, start: () => string][] = [
    ["with a length", () => `${head("content-length: 200")}{"model":`],
    ["in chunks", () => `${head("transfer-encoding: chunked")}${chunk('{"model":')}`],
    ["not a byte of it", () => head("content-length: 200")],
  ]
  test.each(rows)("%s", async (_, start) => {
    await harness.untouched(account.id, async () => {
      expectError(await harness.say(start(), "POST"), "request_timeout")
    })
  })

  test("bytes that trickle in do not extend the time", async () => {
    const line = harness.dial()
    line.send(head("content-length: 200"))
    const trickle = setInterval(() => line.send(" "), BODY_TIMEOUT_MS / 5)
    const answer = harness.note(await line.answer("POST"))
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
      "a length, then the connection breaks",
      () => head(`content-length: ${whole.length + 1}`) + whole,
      "leave",
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
  const json = "content-type: application/json"
  const refused: readonly (readonly string[])[] = [
    [],
    ["content-type:"],
    ["content-type: text/plain"],
    ["content-type: text/json"],
    ["content-type: application/x-www-form-urlencoded"],
    ["content-type: multipart/form-data; boundary=x"],
    ["content-type: application/jsonp"],
    ["content-type: application/json-patch+json"],
    ["content-type: application/problem+json"],
    ["content-type: json"],
    ["content-type: application/json, text/plain"],
    ["content-type: application/json; charset=latin1"],
    ["content-type: application/json; charset=utf-16"],
    ['content-type: application/json; charset="iso-8859-1"'],
    [json, "content-type: text/plain"],
    [json, "content-encoding: gzip"],
    [json, "content-encoding: br"],
    [json, "content-encoding: identity, gzip"],
    [json, `content-encoding: ${CANARY}`],
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
    ["content-type: application/json; charset=utf8; x=y"],
    ["content-type:application/json;"],
    [json, "content-encoding: identity"],
  ]
  test.each(accepted.map((headers) => [headers]))("%j passes", async (headers) => {
    expect((await harness.say(request(JSON.stringify(chatBody()), headers))).status).toBe(200)
  })
})

function chunk(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
}

/** A whole body in chunks of a thousand characters. */
function chunked(text: string): string {
  const pieces = text.match(/.{1,1000}/g) ?? []
  return `${pieces.map(chunk).join("")}0\r\n\r\n`
}
